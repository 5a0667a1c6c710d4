"""Whether a turn in hand may go on: its fence, a cancel, a worker that drains."""

from __future__ import annotations

import threading
import time

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from threads import services
from threads.models import Turn
from threads.runtime.sandbox.protocol import Stop

LOOK_SECONDS = 1.0

draining = threading.Event()  # set when the worker is asked to stop


class Watch:
    """Answers, cheaply and often, whether the work in hand must stop, and why."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.next_look = 0.0
        self.drained_at = 0.0
        self.lost = False
        self.cancelled = False

    def stop(self) -> Stop | None:
        now = time.monotonic()
        if draining.is_set():
            self.drained_at = self.drained_at or now + settings.DRAIN_SECONDS
            if now >= self.drained_at:
                return Stop.DRAIN
        if now >= self.next_look:
            self.next_look = now + LOOK_SECONDS
            self.look()
        if self.lost:
            return Stop.LOST
        return Stop.CANCEL if self.cancelled else None

    def look(self) -> None:
        """Read the fence; a database that does not answer says nothing either way."""
        try:
            rows = Turn.objects.filter(services.held_by(self.turn), pk=self.turn.pk)
            found = rows.values_list("cancel_asked_at").first()
            self.lost = found is None
            self.cancelled = found is not None and found[0] is not None
        except (DatabaseError, InterfaceError):
            connection.close()
