"""The third shape of a model server: OpenAI's responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.models import Calls, Reply


def history(body: dict[str, Any], calls: Calls) -> int:
    """Return how many replies the history holds; raise Malformed.

    A reply is a row of items here: its words, then each of its calls.
    """
    reply: list[dict[str, Any]] = []
    for item in [*body["input"], {"type": "end"}]:
        kind = item.get("type") or "message"
        if kind == "function_call" or item.get("role") == "assistant":
            calls.all_answered()
            reply.append(item)
            calls.last = "model"
            continue
        if reply:
            asked = [one for one in reply if one.get("type") == "function_call"]
            for one in asked:
                json.loads(one["arguments"])
            calls.made(
                [one["call_id"] for one in asked], [one["name"] for one in asked]
            )
            reply = []
        if kind == "function_call_output":
            calls.answered(item["call_id"])
        if kind != "end":
            calls.last = "user"
        if kind == "message":
            calls.all_answered()
    return calls.ended("user")


def events(reply: Reply, ids: list[str], used: tuple[int, int]) -> Iterator[str]:
    sent = 0

    def event(kind: str, **facts: Any) -> str:
        nonlocal sent
        sent += 1
        data = {"type": kind, "sequence_number": sent, **facts}
        return f"event: {kind}\ndata: {json.dumps(data)}\n\n"

    def response(status: str, **more: Any) -> dict[str, Any]:
        return {
            "id": "r1", "object": "response", "created_at": 1, "model": reply.model,
            "status": status, "output": [], "tools": [], "tool_choice": "auto",
            "parallel_tool_calls": True, **more,
        }  # fmt: skip

    yield event("response.created", response=response("in_progress"))
    if reply.text:
        item = {"id": "m1", "type": "message", "role": "assistant", "content": []}
        yield event("response.output_item.added", output_index=0, item=item)
        for words in (
            reply.text[n : n + 1000] for n in range(0, len(reply.text), 1000)
        ):
            yield event(
                "response.output_text.delta",
                output_index=0, content_index=0, item_id="m1", delta=words, logprobs=[],
            )  # fmt: skip
        if reply.drops:
            return
    for place, ((tool, args), id_) in enumerate(zip(reply.calls, ids, strict=True), 1):
        item = {
            "id": f"fc_{place}", "type": "function_call", "call_id": id_, "name": tool,
            "arguments": "", "status": "in_progress",
        }  # fmt: skip
        yield event("response.output_item.added", output_index=place, item=item)
        yield event(
            "response.function_call_arguments.delta",
            output_index=place, item_id=item["id"], delta=args,
        )  # fmt: skip
        done = {**item, "arguments": args, "status": "completed"}
        yield event("response.output_item.done", output_index=place, item=done)
    usage = {
        "input_tokens": used[0], "output_tokens": used[1], "total_tokens": sum(used),
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    if why := reasons.get(reply.finish):
        ended = response("incomplete", usage=usage, incomplete_details={"reason": why})
        yield event("response.incomplete", response=ended)
    else:
        yield event("response.completed", response=response("completed", usage=usage))
