from __future__ import annotations

from django.apps import AppConfig


class WorkflowsConfig(AppConfig):
    name = "workflows"

    def ready(self) -> None:
        from threads import notices
        from workflows import envelopes, seams  # noqa: F401

        notices.turn_settled.connect(seams.turn_settled)
        notices.gate_decided.connect(seams.gate_decided)
        notices.entry_appended.connect(seams.entry_appended)
