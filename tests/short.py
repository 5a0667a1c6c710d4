"""The settings with a broker that hands a message out again after two seconds."""

from __future__ import annotations

import os

from project.settings import *  # noqa: F403
from project.settings import CELERY_BROKER_TRANSPORT_OPTIONS as KEPT

CELERY_TASK_ACKS_LATE = bool(os.environ.get("ACKS_LATE"))
CELERY_BROKER_TRANSPORT_OPTIONS = {
    **KEPT,
    "visibility_timeout": 2,
    "unacked_restore_interval": 1,
}
