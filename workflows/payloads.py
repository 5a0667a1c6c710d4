"""What a start may bring: a JSON object, and a key of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from threads import text
from workflows.exceptions import BadPayload

PAYLOAD_LIMIT = 1_000_000  # characters of JSON
KEY_LIMIT = 200


def checked(payload: object) -> dict[str, Any]:
    """Return the payload as kept; raise BadPayload for what is not a JSON object."""
    if payload is None:
        return {}
    if not isinstance(payload, Mapping):
        raise BadPayload('payload: must be a JSON object such as {"branch": "main"}')
    try:
        text.refuse(dict(payload), where="payload")
    except text.Unclean as error:
        raise BadPayload(str(error)) from None
    if len(json.dumps(payload, ensure_ascii=False)) > PAYLOAD_LIMIT:
        raise BadPayload(f"payload: longer than {PAYLOAD_LIMIT} characters")
    return dict(payload)


def checked_key(key: str) -> None:
    try:
        text.refuse(key, where="key")
    except text.Unclean as error:
        raise BadPayload(str(error)) from None
    if len(key) > KEY_LIMIT:
        raise BadPayload(f"key: longer than {KEY_LIMIT} characters")


def loaded(kept: Any) -> Any:
    """Return JSON that a raw cursor of Django's hands over as text."""
    return json.loads(kept) if isinstance(kept, str) else kept
