"""The names of what this code can run, for those who may not import what runs it."""

from __future__ import annotations

NAMES = frozenset({"agent", "command", "scripted"})  # as threads.tasks announces them
