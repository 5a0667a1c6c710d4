"""Write through a database that is away for a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

logger = logging.getLogger(__name__)

T = TypeVar("T")
PATIENCE = 300.0  # seconds; after that the lease has passed and the record is adopted
never = Event()


def insist(write: Callable[[], T]) -> T:
    """Run a whole transaction again while the database is away, or saw a deadlock.

    The write is fenced, so that a repetition after an unseen commit changes nothing.
    """
    end = time.monotonic() + PATIENCE
    delay = 0.1
    while True:
        try:
            return write()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > end or connection.in_atomic_block:
                raise
            logger.warning("The database did not take a write, again soon: %s", error)
            connection.close()
            never.wait(delay)
            delay = min(delay * 2, 2.0)
