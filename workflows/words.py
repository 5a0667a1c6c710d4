"""The words a workflow file may use: names, handles, variables."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
OURS = "THREADWORK_"


def _name(word: str) -> str:
    if not NAME.fullmatch(word):
        raise ValueError("must be 1 to 64 letters, digits, - or _")
    return word


def _variable(word: str) -> str:
    if not VARIABLE.fullmatch(word):
        raise ValueError("must be a variable's name: letters, digits and _")
    if word.startswith(OURS):
        raise ValueError(f"names beginning with {OURS} are taken")
    return word


def _filled(words: str) -> str:
    if not words.strip():
        raise ValueError("must not be empty")
    return words


def _glob(pattern: str) -> str:
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError("must stay inside the workspace")
    return _filled(pattern)


def _number_as_text(value: object) -> object:
    # PORT: 8080 is how people write it; a fraction or a yes would change on the way.
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


Name = Annotated[str, AfterValidator(_name)]
Slug = Name
Handle = Name
EnvName = Annotated[str, AfterValidator(_variable)]
EnvText = Annotated[str, BeforeValidator(_number_as_text)]
Filled = Annotated[str, AfterValidator(_filled), Field(max_length=1_000_000)]
Glob = Annotated[str, AfterValidator(_glob)]
