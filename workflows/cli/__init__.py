"""The `wf` command line: one module a noun, each a caller of the same verbs."""

from __future__ import annotations
