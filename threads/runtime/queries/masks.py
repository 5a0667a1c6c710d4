"""What must never be said of a database's address. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus, unquote

MASK = "•••"
PERSON = re.compile(r"://(?P<user>[^:/@]*):(?P<password>[^@]*)@")
OPTION = re.compile(r"[?&](?:\w*password|passwd|pwd|token)=(?P<value>[^&]*)", re.I)


def secrets(address: str) -> tuple[str, ...]:
    """Return every spelling of what must never be said, the longest first."""
    found = {address, *spellings(address)}
    return tuple(sorted(filter(None, found), key=len, reverse=True))


def spellings(address: str) -> Iterator[str]:
    person = PERSON.search(address)
    words = [found["value"] for found in OPTION.finditer(address)]
    if person is not None:
        yield f"{person['user']}:{person['password']}"
        words.append(person["password"])
    for word in words:
        plain = unquote(word)
        yield from (word, plain, quote(plain), quote_plus(plain))


def masked(words: str, hidden: tuple[str, ...]) -> str:
    for secret in hidden:
        words = words.replace(secret, MASK)
    return words
