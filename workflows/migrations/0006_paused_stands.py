"""A paused run is never ready, whoever makes it pending."""

from __future__ import annotations

from django.db import migrations

STANDS = """
CREATE FUNCTION workflows_paused_stands() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.ready_at := NULL;
    RETURN NEW;
END $$;
CREATE TRIGGER run_paused_stands BEFORE UPDATE ON workflows_run FOR EACH ROW
    WHEN (NEW.paused_at IS NOT NULL AND NEW.state = 'pending')
    EXECUTE FUNCTION workflows_paused_stands();
"""
NOT_STANDS = """
DROP TRIGGER run_paused_stands ON workflows_run;
DROP FUNCTION workflows_paused_stands();
"""


class Migration(migrations.Migration):
    dependencies = [("workflows", "0005_run_control")]
    operations = [migrations.RunSQL(STANDS, NOT_STANDS)]
