"""One request to a model: what it is sent, what came back, what it cost.

Imported with the first request of a worker only: the libraries take a second to load.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from threads import phrases
from threads.runtime.bots import aside, history, providers, trouble
from threads.runtime.bots.protocol import Brief, Halted, Line, Said, ToolCall
from threads.runtime.faults import Broken, Fault
from threads.runtime.sandbox.protocol import Stop
from threads.text import clean, mended, one_line

LONGEST_ARGS = 1_000_000  # characters of one call's arguments
LONGEST = 4_000_000  # characters of one message; more is no answer and fills the memory
MOST_TOKENS = 10**12  # a count beyond it is a mistake of the server
# What real servers take back in a history, whatever came from them.
ODD = re.compile(r"[^A-Za-z0-9_-]")
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass
class Writing:
    """What the model writes, passed on between looks."""

    pieces: deque[str] = field(default_factory=deque)
    size: int = 0

    def hear(self, event: object) -> None:
        """Take the next piece; raise Broken where the message has no end."""
        words = ""
        match event:
            case PartStartEvent(part=TextPart(content=words)):
                self.pieces.append(words)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=words)):
                self.pieces.append(words)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(words))):
                pass
            case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=str(words))):
                pass  # a call is shown when it begins
            case _:
                pass
        self.size += len(words)
        if self.size > LONGEST:
            raise Broken(phrases.MODEL_ENDLESS.format(limit=LONGEST))

    def pass_on(self, brief: Brief) -> None:
        words = [self.pieces.popleft() for _ in range(len(self.pieces))]
        if words:
            brief.emit("".join(words))


def next_move(brief: Brief, log: Sequence[Line]) -> Said | Halted:
    """Ask the model once; raise Fault or Broken, in words."""
    keys: list[str] = []

    def secret(name: str) -> str:
        keys.append(brief.secret(name))
        return keys[-1]

    model = providers.model_of(brief.model, secret)
    messages = history.messages(brief, log)
    stopped: list[Stop] = []
    writing = Writing()

    def look() -> bool:
        writing.pass_on(brief)
        # A drain says so when the time for a message that is being written is over.
        if (why := brief.stop()) is not None:
            stopped.append(why)
        return bool(stopped)

    asked = request(model, messages, brief, writing)
    try:
        response = aside.wait_for(asked, look)
    except Broken:
        raise
    except Exception as error:
        raise trouble.sorted_out(error, model=brief.model, keys=keys) from error
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
    try:
        async with model_request_stream(
            model,
            messages,
            model_settings=settings_of(brief),
            model_request_parameters=ModelRequestParameters(function_tools=tools),
        ) as stream:
            async for event in stream:
                writing.hear(event)
        return stream.get()
    finally:
        await model.client.close()  # type: ignore[attr-defined]


def settings_of(brief: Brief) -> ModelSettings:
    limit = brief.limits.get("max_tokens")
    if limit is None:
        return ModelSettings()
    if not isinstance(limit, int) or limit < 1:
        raise Broken(phrases.BAD_LIMIT.format(said=one_line(str(limit), 60)))
    return ModelSettings(max_tokens=limit)


def read(response: ModelResponse) -> Said:
    """Return a reply as it is kept: clean, and every call with an id of its own."""
    seen: set[str] = set()
    parts: list[Any] = []
    calls = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            part = replace(part, tool_call_id=own_id(part.tool_call_id, seen))
            seen.add(part.tool_call_id)
            call, part = call_of(part, cut=response.finish_reason == "length")
            calls.append(call)
        parts.append(part)
    used = usage_of(response)
    counts = RequestUsage(
        input_tokens=used["input_tokens"], output_tokens=used["output_tokens"]
    )
    message = replace(response, parts=parts, usage=counts)
    return Said(
        text=clean(response.text or ""),
        calls=tuple(calls),
        message=as_kept(message),
        usage=used,
        finish=response.finish_reason or "stop",
    )


def own_id(given: str, taken: Collection[str]) -> str:
    """Return an id that no other call of the message has: some servers repeat them."""
    number = len(taken)
    while not ID.fullmatch(given) or given in taken:
        given, number = f"call_{number}", number + 1
    return given


def call_of(part: ToolCallPart, *, cut: bool) -> tuple[ToolCall, ToolCallPart]:
    """Return the call, and the part as the model is shown it again.

    Arguments nobody can read would be refused with the history: they are sent back empty
    beside the answer that says so. So would be a name that no tool can have.
    """
    tool = one_line(part.tool_name, 100)
    part = replace(part, tool_name=ODD.sub("_", tool)[:64] or "unnamed")
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
        "input_tokens": counted(usage.input_tokens),
        "output_tokens": counted(usage.output_tokens),
        "model": one_line(response.model_name or "", 100),
        "cost": None,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cost = float(response.cost().total_price)
        except Exception:  # noqa: BLE001  a price nobody knows is no trouble
            return used
    if math.isfinite(cost) and cost >= 0:
        used["cost"] = cost
    return used


def counted(tokens: object) -> int:
    """Return a count as the server gave it; 0 for what is none."""
    fits = isinstance(tokens, int) and 0 <= tokens <= MOST_TOKENS
    return tokens if fits and isinstance(tokens, int) else 0
