from __future__ import annotations

from tests.acceptance.conftest import stack, world

__all__ = ["stack", "world"]
