"""The name of the file a query's process leaves beside its answer."""

from __future__ import annotations

FILE = "rows.csv"
