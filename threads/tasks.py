"""Celery's entrance to threads, and a worker's birth and end."""

from __future__ import annotations

import threading
import time
from typing import Any
from uuid import UUID

from celery import shared_task
from celery.signals import (
    celeryd_after_setup,
    task_postrun,
    task_prerun,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutdown,
    worker_shutting_down,
)
from django.db import close_old_connections, connection

from threads import liveness
from threads.jobs import mail
from threads.runtime import jobs, turns, watch, workspace
from threads.runtime.bots import RUNTIMES

jobs.handlers["mail.v1"] = mail.handle
liveness.known_runtimes.update(RUNTIMES, {"command"})
IDLE_SECONDS = 1.0  # a connection used since then needs no trial


class Role:
    """What this worker consumes; the children of a prefork pool inherit it."""

    name = "worker"
    forks = False


@shared_task(name="threads.turn")
def turn(pool: str, hint: str = "") -> int:
    holder = here().id
    return turns.work_off(pool=pool, holder=holder, hint=as_id(hint))


@shared_task(name="threads.job")
def job(hint: str = "") -> int:
    return jobs.work_off(holder=here().id)


def as_id(hint: str) -> UUID | None:
    try:
        return UUID(hint)
    except ValueError:
        return None  # a ticket of another release is still a ticket


def here() -> liveness.Holder:
    return liveness.here.begin(Role.name, root=workspace.root_id())


class LastTicket(threading.local):
    """When this thread ended its last ticket."""

    at = 0.0


last_ticket = LastTicket()


@task_prerun.connect
def look_at_connections(task: Any, **kwargs: Any) -> None:
    """Close what is too old or broken; try what has lain idle before its first use."""
    if task.request.is_eager:
        return  # called by a step, in the middle of a ticket
    idle = time.monotonic() - last_ticket.at
    if connection.errors_occurred or idle > IDLE_SECONDS:
        close_old_connections()


@task_postrun.connect
def ticket_ends(**kwargs: Any) -> None:
    last_ticket.at = time.monotonic()


@celeryd_after_setup.connect
def name_role(sender: str, instance: Any, **kwargs: Any) -> None:
    queues = instance.app.amqp.queues.consume_from.values()
    Role.name = "worker-" + "-".join(sorted(q.alias or q.name for q in queues))
    Role.forks = "prefork" in str(getattr(instance, "pool_cls", ""))


@worker_process_init.connect
def child_begins(**kwargs: Any) -> None:
    here()


@worker_process_shutdown.connect
def child_ends(**kwargs: Any) -> None:
    liveness.here.end()


@worker_ready.connect
def begins(**kwargs: Any) -> None:
    if not Role.forks:
        here()


@worker_shutting_down.connect
def drains(**kwargs: Any) -> None:
    watch.draining.set()


@worker_shutdown.connect
def ends(**kwargs: Any) -> None:
    liveness.here.end()
