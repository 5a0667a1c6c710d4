"""How long something took or stands, the way people say it."""

from __future__ import annotations

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def span(seconds: float) -> str:
    """Say a span in the unit that says it best: 3.2 s, 83 s, 13 min, 5 h, 3 d."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    for unit, size in UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
