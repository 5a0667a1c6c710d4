from __future__ import annotations

from tests.acceptance.conftest import stack

__all__ = ["stack"]
