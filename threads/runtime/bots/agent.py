"""A bot with a model: our own loop, one request a move, the log alone goes on."""

from __future__ import annotations

from collections.abc import Sequence

from threads import phrases
from threads.runtime.bots.protocol import Brief, Line, Move
from threads.runtime.faults import Broken


class Agent:
    name = "agent"

    def next_move(self, brief: Brief, log: Sequence[Line]) -> Move:
        """Ask the model that the bot names."""
        if not brief.model:
            raise Broken(phrases.MODEL_MISSING)
        # The libraries take a second to load: only who asks a model pays for it.
        from threads.runtime.bots import llm  # noqa: PLC0415

        return llm.next_move(brief, log)
