"""The zero-install default: a real Postgres, a real Valkey and every role, supervised."""

from __future__ import annotations
