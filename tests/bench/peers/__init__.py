"""The peers of the bench: what others need for the same work, side by side with ours."""

from __future__ import annotations
