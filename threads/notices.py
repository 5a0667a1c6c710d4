"""The one way out of threads, inside the writer's transaction.

Receivers write with the sender or not at all: an exception undoes both.
"""

from __future__ import annotations

from django.dispatch import Signal

entry_appended = Signal()  # entry, person: a person spoke where no gate took it
turn_settled = Signal()  # turn
gate_decided = Signal()  # gate
