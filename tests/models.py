"""Model servers on loopback, strict as real ones are about what they are sent.

They speak as OpenAI's chat completions, its responses, or Anthropic's messages. A history
that leaves a call open, answers one twice or answers none gets a 400.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests import responses

USAGE = (100, 20)
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # of a tool, or a call's id


@dataclass(frozen=True)
class Reply:
    """What the model says: words, calls as (tool, arguments as written), or a failure."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0  # before it begins
    drops: bool = False  # in the middle of its words
    ids: tuple[str, ...] = ()  # of its calls, where they are not to differ
    model: str = "fake-1"
    usage: Any = None  # instead of the plain one
    piece: float = 0.0  # seconds between the pieces of its words


def call(tool: str, **args: Any) -> tuple[str, str]:
    return tool, json.dumps(args)


Script = Callable[[int], Reply]


class Malformed(Exception):
    """A history that no real server takes."""


class Served:
    """What a server was asked, and what it is to say next."""

    def __init__(self, shape: str, script: Script) -> None:
        self.shape, self.script = shape, script
        self.requests: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.keys: list[str] = []
        self.gone = 0
        self.let_go = threading.Event()
        self.url = ""

    @property
    def setting(self) -> str:
        path = "" if self.shape == "anthropic" else "/v1"
        return f"fake={self.shape}@{self.url}{path}#MODEL_KEY"

    def answer(self, body: dict[str, Any]) -> Reply:
        """Say what the script has for so many replies as the history holds."""
        check = HISTORIES[self.shape]
        self.requests.append(body)
        try:
            replies = check(body)
        except Malformed as error:
            self.refused.append(str(error))
            return Reply(status=400, text=str(error))
        return self.script(replies)


class Calls:
    """The calls of the last reply that are still without a result."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.replies = 0
        self.last = ""

    def made(self, ids_: list[str], tools: list[str]) -> None:
        for name in (*ids_, *tools):
            if not NAME.fullmatch(name):
                raise Malformed(f"no name or id: {name}")
        if len(set(ids_)) < len(ids_):
            raise Malformed("two calls of one id")
        self.open = ids_
        self.replies += 1

    def answered(self, id_: str) -> None:
        if id_ not in self.open:
            raise Malformed("a result without its call")
        self.open.remove(id_)

    def all_answered(self) -> None:
        if self.open:
            raise Malformed("a call without its result")

    def ended(self, *roles: str) -> int:
        self.all_answered()
        if self.last not in roles:
            raise Malformed("the last word is not the user's")
        return self.replies


def openai_history(body: dict[str, Any]) -> int:
    """Return how many replies the history holds; raise Malformed."""
    calls = Calls()
    for message in body["messages"]:
        calls.last = role = message["role"]
        if role == "tool":
            calls.answered(message["tool_call_id"])
            continue
        calls.all_answered()
        if role == "assistant":
            asked = message.get("tool_calls") or []
            for one in asked:
                json.loads(one["function"]["arguments"])
            names = [one["function"]["name"] for one in asked]
            calls.made([one["id"] for one in asked], names)
            if not asked and not message.get("content"):
                raise Malformed("an empty turn")
    return calls.ended("user", "tool")


def anthropic_history(body: dict[str, Any]) -> int:
    calls = Calls()
    for message in body["messages"]:
        role, content = message["role"], message["content"]
        said = [{"type": "text"}] if isinstance(content, str) else content
        if role == calls.last or not said:
            raise Malformed("two turns of one side, or an empty one")
        calls.last = role
        for block in said:
            if block["type"] == "tool_result":
                calls.answered(block["tool_use_id"])
            else:
                calls.all_answered()  # results come before any words
        if role == "assistant":
            used = [b for b in said if b["type"] == "tool_use"]
            calls.made([b["id"] for b in used], [b["name"] for b in used])
        if role == "user":
            calls.all_answered()
    return calls.ended("user")


class Handler(BaseHTTPRequestHandler):
    served: Served

    def do_POST(self) -> None:
        served = self.served
        length = int(self.headers["content-length"])
        body = json.loads(self.rfile.read(length))
        served.keys.append(self.headers.get("authorization", ""))
        reply = served.answer(body)
        if reply.seconds:
            served.let_go.wait(reply.seconds)
        try:
            if reply.status == 200:
                self.stream(reply)
            else:
                self.refuse(reply)
        except OSError:
            served.gone += 1

    def refuse(self, reply: Reply) -> None:
        words = {"error": {"message": reply.text or "no", "type": "error"}}
        data = json.dumps(words).encode()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in EVENTS[self.served.shape](reply):
            self.wfile.write(event.encode())
            self.wfile.flush()
            if reply.piece:
                self.served.let_go.wait(reply.piece)
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512


@contextmanager
def serve(shape: str, script: Script) -> Iterator[Served]:
    served = Served(shape, script)
    handler = type("Serving", (Handler,), {"served": served})
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield served
    finally:
        served.let_go.set()
        server.shutdown()
        server.server_close()
        thread.join()


def pieces(text: str) -> list[str]:
    return [text[n : n + 1000] for n in range(0, len(text), 1000)]


def ids(reply: Reply) -> list[str]:
    return list(reply.ids) or [f"call_{n}" for n in range(len(reply.calls))]


def openai_events(reply: Reply) -> Iterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        facts = {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": reply.model,
        }
        return f"data: {json.dumps({**facts, 'choices': [choice], **more})}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(reply.text):
        yield chunk({"content": piece})
    if reply.drops:
        return
    for number, ((tool, args), id_) in enumerate(
        zip(reply.calls, ids(reply), strict=True)
    ):
        function = {"name": tool, "arguments": args}
        yield chunk(
            {
                "tool_calls": [
                    {
                        "index": number,
                        "id": id_,
                        "type": "function",
                        "function": function,
                    }
                ]
            }
        )
    yield chunk({}, reply.finish or ("tool_calls" if reply.calls else "stop"))
    used = reply.usage or {
        "prompt_tokens": USAGE[0],
        "completion_tokens": USAGE[1],
        "total_tokens": sum(USAGE),
    }
    facts = {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": reply.model,
    }
    yield f"data: {json.dumps({**facts, 'choices': [], 'usage': used})}\n\n"
    yield "data: [DONE]\n\n"


def anthropic_events(reply: Reply) -> Iterator[str]:
    def event(kind: str, **facts: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **facts})}\n\n"

    message: dict[str, Any] = {
        "id": "m1", "type": "message", "role": "assistant", "content": [], "model": reply.model,
        "stop_reason": None, "stop_sequence": None,
        "usage": reply.usage or {"input_tokens": USAGE[0], "output_tokens": 1},
    }  # fmt: skip
    yield event("message_start", message=message)
    index = 0
    if reply.text:
        yield event(
            "content_block_start", index=0, content_block={"type": "text", "text": ""}
        )
        for piece in pieces(reply.text):
            yield event(
                "content_block_delta",
                index=0,
                delta={"type": "text_delta", "text": piece},
            )
        if reply.drops:
            return
        yield event("content_block_stop", index=0)
        index = 1
    for (tool, args), id_ in zip(reply.calls, ids(reply), strict=True):
        block = {"type": "tool_use", "id": id_, "name": tool, "input": {}}
        yield event("content_block_start", index=index, content_block=block)
        yield event(
            "content_block_delta",
            index=index,
            delta={"type": "input_json_delta", "partial_json": args},
        )
        yield event("content_block_stop", index=index)
        index += 1
    finish = {"length": "max_tokens", "content_filter": "refusal"}.get(
        reply.finish, "tool_use" if reply.calls else "end_turn"
    )
    yield event(
        "message_delta",
        delta={"stop_reason": finish, "stop_sequence": None},
        usage={"output_tokens": USAGE[1]},
    )
    yield event("message_stop")


HISTORIES: dict[str, Callable[[dict[str, Any]], int]] = {
    "openai-chat": openai_history,
    "anthropic": anthropic_history,
    "openai": lambda body: responses.history(body, Calls()),
}
EVENTS: dict[str, Callable[[Reply], Iterator[str]]] = {
    "openai-chat": openai_events,
    "anthropic": anthropic_events,
    "openai": lambda reply: responses.events(reply, ids(reply), USAGE),
}
