"""The mirror of schedules for beat: exactly one row a workflow, named `wf:<id>`.

Beat is one more caller of fire_due. Its row may say more often than the schedule does;
what fires is decided by `next_slot_at` and the ledger alone.
"""

from __future__ import annotations

import json

from django_celery_beat.models import CrontabSchedule, PeriodicTask

from workflows import schedules
from workflows.models import Workflow


def mirror(workflow: Workflow) -> None:
    """Make the workflow's row say what its schedule says, or be gone."""
    name = f"wf:{workflow.pk}"
    if not workflow.schedule or workflow.deleted_at is not None:
        for row in PeriodicTask.objects.filter(name=name):
            row.delete()
        return
    crontab, _ = CrontabSchedule.objects.get_or_create(
        timezone="UTC", **schedules.celery_fields(workflow.schedule)
    )
    PeriodicTask.objects.update_or_create(
        name=name,
        defaults={
            "crontab": crontab,
            "interval": None,
            "task": "workflows.fire",
            "args": json.dumps([str(workflow.pk)]),
            "queue": "jobs",
            "enabled": not workflow.paused,
        },
    )
