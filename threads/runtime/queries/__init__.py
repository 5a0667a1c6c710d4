"""Reading a database that is not ours: in a process of its own, under limits."""

from __future__ import annotations
