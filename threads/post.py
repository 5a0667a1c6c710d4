"""Tickets: after the commit, by name, never raising."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from kombu.exceptions import ChannelError

logger = logging.getLogger(__name__)

QUIET_SECONDS = 2.0


class Messenger:
    """Remembers that the messenger did not answer, so that callers do not each wait."""

    def __init__(self) -> None:
        self.quiet_until = 0.0
        self.silent = False  # as of the last time it was asked for anything

    def send(self, name: str, *, queue: str, args: list[Any]) -> bool:
        if time.monotonic() < self.quiet_until:
            return False
        try:
            current_app.send_task(
                name, args=args, queue=queue, ignore_result=True, retry=False
            )
        except Exception as error:  # noqa: BLE001  the row stands; it is topped up
            self.quiet_until = time.monotonic() + QUIET_SECONDS
            self.silent = True
            logger.warning("No ticket for %s: %s", name, error)
            return False
        self.silent = False
        return True


messenger = Messenger()


def post_ticket(name: str, *ids: Any, queue: str) -> None:
    """Say that there is work, once the transaction has committed.

    A lost ticket costs a delay: the conductor tops up what stays unclaimed.
    """
    send = partial(messenger.send, name, queue=queue, args=[str(i) for i in ids])
    transaction.on_commit(send, robust=True)


def channel() -> str:
    return f"threadwork_{settings.NAMESPACE}"


def wake_conductor() -> None:
    """Tell the conductor, at commit, of a due time nearer than its next look."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [channel()])


def waiting_tickets(queue: str) -> int | None:
    """Return how many tickets nobody has taken yet; None where nobody answers."""
    name = current_app.amqp.queues[queue].name  # as the broker knows it
    try:
        # A channel asked for outright is tried once; the default one, without end.
        with current_app.connection_for_read() as link, link.channel() as channel:
            declared = channel.queue_declare(queue=name, passive=True)
        messenger.silent = False
        return int(declared.message_count)
    except ChannelError:
        messenger.silent = False
        return 0
    except Exception as error:  # noqa: BLE001  asked again at the next look
        messenger.silent = True
        logger.warning("The tickets of %s cannot be counted: %s", queue, error)
        return None
