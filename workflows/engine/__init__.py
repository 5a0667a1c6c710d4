"""What executes runs. Only workers and the conductor import it."""

from __future__ import annotations
