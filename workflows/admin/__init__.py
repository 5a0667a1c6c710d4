"""Workflows are written here through their services; runs and their journals are read."""

from __future__ import annotations

from workflows.admin import journals, recipes

__all__ = ["journals", "recipes"]
