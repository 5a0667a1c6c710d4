"""Job envelopes: one typed shape, its types registered by the apps that own them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Union
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from threads.exceptions import BadEnvelope

registry: dict[str, type[Payload]] = {}


class Payload(BaseModel):
    """What a job carries. A breaking change is a new type, never a new meaning."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    type_name: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.type_name:
            registry[cls.type_name] = cls


class Mail(Payload):
    """One mail to one person, as plain text."""

    type_name = "mail.v1"

    to: str = Field(min_length=3, max_length=320)
    subject: str = Field(min_length=1, max_length=300)
    text: str = Field(max_length=50_000)


class Envelope(BaseModel):
    """What a consumer opens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: UUID
    type: str
    payload: Payload
    enqueued_at: datetime


def union() -> TypeAdapter[Envelope]:
    """Return the envelope as a union discriminated on `type`, from the registry."""
    shapes = [
        type(
            f"Envelope_{name}",
            (Envelope,),
            {"__annotations__": {"type": Literal[name], "payload": payload}},
        )
        for name, payload in sorted(registry.items())
    ]
    shape: Any = shapes[0]
    if len(shapes) > 1:
        shape = Annotated[Union[tuple(shapes)], Field(discriminator="type")]  # noqa: UP007
    return TypeAdapter(shape)


def validated(payload: Payload) -> dict[str, Any]:
    """Return the payload as JSON; raise BadEnvelope where it does not fit its type."""
    try:
        return (
            type(payload)
            .model_validate(payload.model_dump(warnings=False))
            .model_dump(mode="json")
        )
    except ValidationError as error:
        raise BadEnvelope(summary(error)) from None


def opened(fields: Mapping[str, object]) -> Envelope:
    """Open an envelope; raise BadEnvelope for an unknown type or a bad payload."""
    try:
        return union().validate_python(dict(fields))
    except ValidationError as error:
        raise BadEnvelope(summary(error)) from None


def summary(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
        for problem in error.errors()
    )
