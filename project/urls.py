"""The one map of the site."""

from __future__ import annotations

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from project import health
from threads.pages import steady
from threads.views import SignIn, one_time

admin.site.site_header = admin.site.site_title = "Threadwork"
admin.site.index_title = "Admin"
# Its rows mirror the workflows' schedules; edited here they would be overwritten.
for mirror in apps.get_app_config("django_celery_beat").get_models():
    if admin.site.is_registered(mirror):
        admin.site.unregister(mirror)

urlpatterns = [
    path("", include("workflows.urls")),
    path("", include("threads.urls")),
    path("sign-in/", steady(SignIn.as_view()), name="sign-in"),
    path("sign-in/<str:uidb64>/<str:token>/", steady(one_time), name="one-time"),
    path("sign-out/", steady(LogoutView.as_view()), name="sign-out"),
    path("admin/", admin.site.urls),
    path("favicon.ico", RedirectView.as_view(url=static("project/mark.svg"))),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
