"""The step vocabulary: what a step may say, by kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    TypeAdapter,
    field_validator,
    model_validator,
)

from threads import statements
from workflows import templating
from workflows.durations import Duration, Span, read_duration, read_moment
from workflows.words import EnvName, EnvText, Filled, Glob, Handle, Name, Slug

TEMPLATED = (
    "command",
    "prompt",
    "env",
    "args",
    "params",
    "seconds",
    "until",
    "event",
    "key",
    "payload",
    "title",
)


class Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Retries(Plain):
    limit: Annotated[int, Field(ge=0, le=100)]
    delay: Duration = 0
    backoff: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 1.0
    jitter: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0


class Repeat(Plain):
    """Run a step again: so many times, or until it ends in one way."""

    times: Annotated[int, Field(ge=1, le=10_000)] | None = None
    until: Literal["success", "failure"] | None = None
    delay: Duration = 0

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.times is None and self.until is None:
            raise ValueError("needs times, or until: success or failure")
        return self


class Common(Plain):
    name: Name
    when: Literal["on_success", "on_failure", "always"] = "on_success"
    on_error: Literal["stop", "continue"] = "stop"
    retries: Retries | None = None
    timeout: Span | None = None
    if_interrupted: Literal["again", "fail", "ask"] = "again"


class Worked(Common):
    """A step that a bot works on, in the run's workspace."""

    repeat: Repeat | None = None
    source: Filled | None = None
    network: bool = False
    env: dict[EnvName, EnvText] = {}
    secrets: list[EnvName] = []
    artifacts: list[Glob] = []


class RunCommand(Worked):
    kind: Literal["run_command"]
    command: Filled


class DispatchTask(Worked):
    kind: Literal["dispatch_task"]
    prompt: Filled
    bot: Handle | None = None


class Sleep(Common):
    kind: Literal["sleep"]
    seconds: int | float | str | None = None
    until: str | None = None

    @field_validator("seconds", mode="before")
    @classmethod
    def _seconds(cls, value: object) -> object:
        if value is None or (isinstance(value, str) and templating.paths(value)):
            return value
        return read_duration(value)

    @field_validator("until")
    @classmethod
    def _until(cls, value: str | None) -> str | None:
        if value is not None and not templating.paths(value):
            read_moment(value)
        return value

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.seconds is None) == (self.until is None):
            raise ValueError("needs either seconds or until")
        return self


class HumanGate(Common):
    kind: Literal["human_gate"]
    prompt: Filled
    answer: Literal["approve", "reply", "acknowledge", "choose", "form"] = "approve"
    choices: list[Filled] = []
    form: dict[str, object] | None = None
    deadline: Span | None = None
    on_deadline: Literal["fail", "approve", "reject", "skip"] = "fail"
    not_starter: bool = False
    who: list[Filled] = []
    approvals: Annotated[int, Field(ge=1, le=100)] = 1

    @model_validator(mode="after")
    def _answerable(self) -> Self:
        if bool(self.choices) != (self.answer == "choose"):
            raise ValueError("choices belong to `answer: choose`, which needs some")
        if len(set(self.choices)) < len(self.choices):
            raise ValueError("choices must differ from each other")
        if (self.form is not None) != (self.answer == "form"):
            raise ValueError("a form belongs to `answer: form`, which needs one")
        return self

    @field_validator("form")
    @classmethod
    def _schema(cls, form: dict[str, object] | None) -> dict[str, object] | None:
        properties = {} if form is None else form.get("properties")
        if not isinstance(properties, dict) or (form or {}).get("type", "object") != (
            "object"
        ):
            raise ValueError("must be a JSON schema of type object with properties")
        return form


class Call(Common):
    kind: Literal["call"]
    function: Filled
    args: dict[str, object] = {}
    repeat: Repeat | None = None


class Query(Common):
    """A step that reads a database: one statement, its values bound by name."""

    kind: Literal["query"]
    database: Name
    sql: Filled
    params: dict[EnvName, object] = {}
    repeat: Repeat | None = None

    @model_validator(mode="after")
    def _bound(self) -> Self:
        if not any(statements.is_one(self.sql, kind) for kind in statements.FAMILIES):
            raise ValueError("sql must be one statement, and not empty")
        for name in statements.bound_anyhow(self.sql):
            if name not in self.params:
                raise ValueError(f"sql names :{name}, which params does not have")
        for name in self.params:
            if not statements.mentioned(self.sql, name):
                raise ValueError(f"sql does not name :{name}, which params has")
        return self


class WaitForEvent(Common):
    kind: Literal["wait_for_event"]
    event: Annotated[Filled, Field(max_length=200)]
    key: Filled | None = None
    on_timeout: Literal["fail", "continue"] = "fail"


class RunWorkflow(Common):
    """A step that starts a run of another workflow and waits for its end."""

    kind: Literal["run_workflow"]
    workflow: Slug
    payload: dict[str, object] = {}


class OpenThread(Common):
    """A step that opens a room, in which people and bots go on talking."""

    kind: Literal["open_thread"]
    title: Filled  # rendered, it is one line of 200 characters at most
    prompt: Filled
    who: list[Filled] = []


Step = Annotated[
    RunCommand
    | DispatchTask
    | Sleep
    | HumanGate
    | Call
    | Query
    | WaitForEvent
    | RunWorkflow
    | OpenThread,
    Discriminator("kind"),
]
MODELS: dict[str, type[Common]] = {
    get_args(model.model_fields["kind"].annotation)[0]: model
    for model in get_args(get_args(Step)[0])
}
KINDS = frozenset(MODELS)
STEP_FIELDS = {key for model in MODELS.values() for key in model.model_fields}
STEP: TypeAdapter[Step] = TypeAdapter(Step)


@dataclass(frozen=True)
class Unknown:
    """A stored step of a kind that this release does not know."""

    name: str
    kind: str


def timeout_seconds(step: Step) -> float | None:
    """Return the seconds that one try of the step may take."""
    return step.timeout


def repeat_of(step: Step) -> Repeat | None:
    """Return how a step repeats; None for one that does not, or cannot."""
    return getattr(step, "repeat", None)


def template_fields(step: Step) -> dict[str, object]:
    """Return the fields in which placeholders render, those that are set."""
    fields = {field: getattr(step, field, None) for field in TEMPLATED}
    return {field: value for field, value in fields.items() if value is not None}
