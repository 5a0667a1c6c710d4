"""Runs and lists as pages show them: words and choices, made before the template."""

from __future__ import annotations
