"""What is wrong with a workflow file, said so that its author can mend it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PLAIN = {
    "missing": "missing",
    "string_type": "must be text; put it in quotes",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} items",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}


@dataclass(frozen=True)
class Problem:
    """One thing to mend: the field as `steps[2].command`, and its step's name."""

    field: str
    reason: str
    step: str = ""

    def __str__(self) -> str:
        place = f"{self.field} (step “{self.step}”)" if self.step else self.field
        return f"{place}: {self.reason}" if place else self.reason


class Refused(ValueError):
    """The workflow cannot be kept as it is written."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(map(str, self.problems)))


def place(loc: Iterable[str | int]) -> str:
    """Return a field's place, as `steps[2].env.PORT`."""
    words = (
        f"[{word}]" if isinstance(word, int) else f".{word}"
        for word in loc
        if word != "[key]"  # how the validator marks a key instead of its value
    )
    return "".join(words).removeprefix(".")


def named(data: object, loc: tuple[str | int, ...]) -> str:
    """Return the name of the step that a place lies in, where it has one."""
    match data, loc:
        case {"steps": list(steps)}, ("steps", int(number), *_) if number < len(steps):
            step = steps[number]
            name = step.get("name") if isinstance(step, Mapping) else None
            return name if isinstance(name, str) else ""
        case _:
            return ""


def plainly(
    error: ErrorDetails, *, data: object, kinds: Collection[str], known: Collection[str]
) -> Problem:
    """Return a validator's complaint in the words of the file."""
    loc = list(error["loc"])
    if len(loc) > 2 and loc[0] == "steps" and loc[2] in kinds:
        del loc[2]  # the union's tag is no key of the file
    if error["type"].startswith("union_tag"):
        loc.append("kind")
    reason = _reason(error, str(loc[-1]) if loc else "", kinds=kinds, known=known)
    return Problem(place(loc), reason, named(data, tuple(loc)))


def _reason(
    error: ErrorDetails, key: str, *, kinds: Collection[str], known: Collection[str]
) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            near = get_close_matches(key, {*known} - {key}, n=1, cutoff=0.75)
            return f"unknown key; did you mean “{near[0]}”?" if near else "unknown key"
        case "union_tag_not_found":
            return (
                "missing" if isinstance(error["input"], Mapping) else PLAIN["dict_type"]
            )
        case "union_tag_invalid":
            return f"must be one of {', '.join(sorted(kinds))}"
        case "literal_error":
            choices = str(context["expected"]).replace(" or ", ", ").replace("'", "")
            return f"must be one of {choices}"
        case "value_error" | "assertion_error":
            return str(context["error"])
        case "too_long" if isinstance(error["input"], str):
            return PLAIN["string_too_long"].format(**context)
        case kind if kind in PLAIN:
            return PLAIN[kind].format(**context)
        case _:
            return error["msg"]
