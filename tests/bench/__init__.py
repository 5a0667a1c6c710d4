"""What `make bench` runs: the figures of speed, measured on real processes."""

from __future__ import annotations
