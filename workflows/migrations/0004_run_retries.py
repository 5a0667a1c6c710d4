from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0003_run_held_back'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('retry_of__isnull', False)), fields=['retry_of'], name='run_retries'),
        ),
    ]
