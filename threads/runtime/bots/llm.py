"""One request to a model: what it is sent, what came back, what it cost.

Imported with the first request of a worker only: the libraries take a second to load.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from threads import phrases
from threads.runtime.bots import aside, history, providers, trouble
from threads.runtime.bots.protocol import Brief, Halted, Line, Said, ToolCall
from threads.runtime.faults import Fault
from threads.runtime.sandbox.protocol import Stop
from threads.text import clean, mended, one_line

LONGEST_ARGS = 1_000_000  # characters of one call's arguments


@dataclass
class Writing:
    """What the model has written so far, passed on between looks."""

    words: str = ""
    shown: int = 0

    def pass_on(self, brief: Brief) -> None:
        if len(self.words) > self.shown:
            words, self.shown = self.words[self.shown :], len(self.words)
            brief.emit(words)


def next_move(brief: Brief, log: Sequence[Line]) -> Said | Halted:
    """Ask the model once; raise Fault or Broken, in words."""
    model = providers.model_of(brief.model, brief.secret)
    messages = history.messages(brief, log)
    stopped: list[Stop] = []
    writing = Writing()

    def look() -> bool:
        writing.pass_on(brief)
        why = brief.stop()
        if why in {Stop.CANCEL, Stop.LOST}:
            stopped.append(why)  # a drain waits for the message
        return bool(stopped)

    asked = request(model, messages, brief, writing)
    try:
        response = aside.wait_for(asked, look)
    except Exception as error:
        raise trouble.sorted_out(error, model=brief.model) from error
    if response is None:
        return Halted(stopped[0] if stopped else Stop.LOST)
    if response.finish_reason is None:
        raise Fault(phrases.MODEL_CUT.format(model=brief.model))
    return read(response)


async def request(
    model: Model, messages: list[ModelMessage], brief: Brief, writing: Writing
) -> ModelResponse:
    """Stream one message; its client is closed however it ends."""
    tools = [
        ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.schema,
        )
        for tool in brief.tools
    ]
    settings = ModelSettings()
    if limit := brief.limits.get("max_tokens"):
        settings["max_tokens"] = int(limit)
    try:
        async with model_request_stream(
            model,
            messages,
            model_settings=settings,
            model_request_parameters=ModelRequestParameters(function_tools=tools),
        ) as stream:
            async for event in stream:
                match event:
                    case PartStartEvent(part=TextPart(content=words)):
                        writing.words += words
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=words)):
                        writing.words += words
                    case _:
                        pass  # a call is shown when it begins
        return stream.get()
    finally:
        await model.client.close()  # type: ignore[attr-defined]


def read(response: ModelResponse) -> Said:
    """Return a reply as it is kept: clean, and every call with an id of its own."""
    seen: set[str] = set()
    parts: list[Any] = []
    calls = []
    for number, part in enumerate(response.parts):
        if isinstance(part, ToolCallPart):
            # Some servers repeat an id within a message, or leave it out.
            if not part.tool_call_id or part.tool_call_id in seen:
                part = replace(part, tool_call_id=f"call_{number}")
            seen.add(part.tool_call_id)
            call, part = call_of(part, cut=response.finish_reason == "length")
            calls.append(call)
        parts.append(part)
    message = replace(response, parts=parts)
    return Said(
        text=clean(response.text or ""),
        calls=tuple(calls),
        message=as_kept(message),
        usage=usage_of(response),
        finish=response.finish_reason or "stop",
    )


def call_of(part: ToolCallPart, *, cut: bool) -> tuple[ToolCall, ToolCallPart]:
    """Return the call, and the part as the model is shown it again.

    Arguments nobody can read would be refused with the history: they are sent back empty
    beside the answer that says so.
    """
    tool = one_line(part.tool_name, 100)
    try:
        args = arguments(part)
    except (ValueError, TypeError, AssertionError, RecursionError) as error:
        words = phrases.CALL_CUT if cut else phrases.CALL_UNREAD
        bad = words.format(tool=tool, why=one_line(str(error), 200))
        return ToolCall(tool, {}, bad=bad), replace(part, args={})
    return ToolCall(tool, args), replace(part, args=args)


def arguments(part: ToolCallPart) -> dict[str, Any]:
    """Return a call's arguments as JSON that can be kept; raise ValueError."""
    if len(part.args_as_json_str()) > LONGEST_ARGS:
        raise ValueError("they are too long")
    args = mended(part.args_as_dict(raise_if_invalid=True))
    if not isinstance(args, dict):
        raise TypeError("they are no object")
    json.dumps(args, allow_nan=False)
    return args


def as_kept(message: ModelResponse) -> dict[str, Any]:
    # By way of text that any JSON can be: what has no word in it becomes null.
    raw = json.dumps(history.RESPONSE.dump_python(message, mode="json"))
    kept = mended(json.loads(raw, parse_constant=lambda word: None))
    if not isinstance(kept, dict):
        raise TypeError("a message is an object")
    return kept


def usage_of(response: ModelResponse) -> dict[str, Any]:
    """Return tokens and, where the price is known, the cost in US dollars."""
    usage = response.usage
    used: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "model": response.model_name or "",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            used["cost"] = float(response.cost().total_price)
        except (LookupError, AssertionError, ValueError, TypeError):
            used["cost"] = None
    return used
