"""The workflow file: steps, and how and when they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from threads import text
from workflows import schedules, templating
from workflows.durations import Span
from workflows.files import dump_file, load_file
from workflows.refusals import Problem, Refused, place, plainly
from workflows.steps import (
    KINDS,
    STEP,
    STEP_FIELDS,
    Call,
    DispatchTask,
    HumanGate,
    OpenThread,
    Plain,
    Query,
    Repeat,
    Retries,
    RunCommand,
    RunWorkflow,
    Sleep,
    Step,
    Unknown,
    WaitForEvent,
    repeat_of,
    template_fields,
    timeout_seconds,
)
from workflows.words import Filled, Handle, Slug

__all__ = [
    "KINDS",
    "Call",
    "DispatchTask",
    "HumanGate",
    "OpenThread",
    "Problem",
    "Query",
    "Recipe",
    "Refused",
    "Repeat",
    "Retries",
    "RunCommand",
    "RunWorkflow",
    "Sleep",
    "Step",
    "Unknown",
    "WaitForEvent",
    "dump_file",
    "load_file",
    "parse_recipe",
    "parse_step",
    "repeat_of",
    "template_fields",
    "timeout_seconds",
    "to_dict",
    "to_json",
]


def _schedule(line: str | None) -> str | None:
    if line is None:
        return None
    schedules.parse(line)
    return " ".join(line.split())


def _one_line(words: str) -> str:
    if any(not c.isprintable() for c in words):
        raise ValueError("must be one line of plain text")
    return words


def _zone(zone: object) -> object:
    if zone != "UTC":
        raise ValueError("only UTC for now; other zones are not available yet")
    return zone


class Recipe(Plain):
    """A workflow file."""

    slug: Slug
    name: Annotated[str, Field(max_length=200), AfterValidator(_one_line)] = ""
    bot: Handle = "runner"
    schedule: Annotated[
        Annotated[str, Field(max_length=200)] | None, AfterValidator(_schedule)
    ] = None
    timezone: Annotated[str, BeforeValidator(_zone)] = "UTC"
    missed: Literal["run_once", "skip"] = "run_once"
    overlap: Literal["join", "wait", "replace", "allow"] | None = None
    limit: Annotated[int, Field(ge=1, le=10_000)] | None = None
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    deadline: Span | None = None
    notify: list[Filled] = []
    steps: Annotated[list[Step], Field(min_length=1, max_length=500)]

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        match data:
            case {"name": str(name)} if name:
                return data
            case {"slug": str(slug)} if not data.get("name"):
                return {**data, "name": text.one_line(slug)}
            case _:
                return data


KNOWN = frozenset(
    key
    for fields in (
        Recipe.model_fields,
        Retries.model_fields,
        Repeat.model_fields,
        STEP_FIELDS,
    )
    for key in fields
)


def parse_recipe(data: object) -> Recipe:
    """Read a workflow strictly, refusing it with every problem found."""
    if not isinstance(data, Mapping):
        raise Refused([Problem("", "a workflow is a mapping of keys to values")])
    try:
        text.refuse(dict(data), where="")
        recipe = Recipe.model_validate(data)
    except text.Unclean as error:
        raise Refused([Problem(error.where, error.reason)]) from error
    except ValidationError as error:
        raise Refused(
            plainly(one, data=data, kinds=KINDS, known=KNOWN) for one in error.errors()
        ) from error
    if problems := [*_doubled(recipe.steps), *_misplaced(recipe.steps)]:
        raise Refused(problems)
    return recipe


def parse_step(data: Mapping[str, object]) -> Step | Unknown:
    """Read a stored step leniently: a later release may have written more."""
    kind = data.get("kind")
    if kind not in KINDS:
        return Unknown(str(data.get("name", "")), str(kind))
    try:
        return STEP.validate_python(data, extra="ignore")
    except ValidationError as error:
        raise Refused(
            plainly(one, data=data, kinds=KINDS, known=KNOWN) for one in error.errors()
        ) from error


def to_json(recipe: Recipe) -> list[dict[str, object]]:
    """Return the steps as they are stored: what says nothing is left out."""
    return [_stored(step) for step in recipe.steps]


def to_dict(recipe: Recipe) -> dict[str, object]:
    """Return the workflow as its file says it."""
    data = recipe.model_dump(exclude_defaults=True, exclude={"steps"})
    return {**data, "steps": to_json(recipe)}


def _stored(step: Step) -> dict[str, object]:
    data = step.model_dump(exclude_defaults=True)
    return {"name": data.pop("name"), "kind": data.pop("kind"), **data}


def _doubled(steps: Sequence[Step]) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, step in enumerate(steps):
        if step.name in seen:
            reason = f"another step is called “{step.name}”"
            yield Problem(f"steps[{number}].name", reason, step.name)
        seen.add(step.name)


def _misplaced(steps: Sequence[Step]) -> Iterator[Problem]:
    """Yield what is wrong with the placeholders of the steps."""
    names = [step.name for step in steps]
    for number, step in enumerate(steps):
        for loc, words in _texts(("steps", number), template_fields(step)):
            for reason in _faults(words, names, number):
                yield Problem(place(loc), reason, step.name)


def _faults(words: str, names: Sequence[str], number: int) -> Iterator[str]:
    try:
        paths = templating.paths(words)
    except templating.Malformed as error:
        yield str(error)
        return
    for path in paths:
        first, _, rest = path.partition(".")
        name = rest.partition(".")[0]
        if first != "steps" or name in names[:number]:
            continue
        known = "does not come before it" if name in names else "is not in the workflow"
        yield f"“{path}” names step “{name}”, which {known}"


def _texts(loc: tuple[str | int, ...], value: object) -> Iterator[tuple[Any, str]]:
    match value:
        case str():
            yield loc, value
        case Mapping():
            for key, item in value.items():
                yield from _texts((*loc, key), item)
        case list():
            for number, item in enumerate(value):
                yield from _texts((*loc, number), item)
        case _:
            return
