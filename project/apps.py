from __future__ import annotations

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "project"
    verbose_name = "Threadwork"

    def ready(self) -> None:
        from project import checks  # noqa: F401
