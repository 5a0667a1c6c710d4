"""A bot's turn as a loop over its log: one model move, one tool call, one row each.

The log is the whole state. After a crash the loop goes on from its last row; a tool call
found begun but not ended runs again with the same key, or is adopted from its record.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from threads import phrases, points, services
from threads.models import Turn, TurnMessage
from threads.runtime import tools
from threads.runtime.bots import RUNTIMES
from threads.runtime.bots.protocol import Final, Line, ToolCall
from threads.runtime.insist import insist
from threads.runtime.sandbox.protocol import Stop
from threads.runtime.watch import Watch, draining
from threads.services import Ending

MOST_CALLS = 100  # tool calls a turn may make; a loop that goes on is no answer
Kind = TurnMessage.Kind


def converse(turn: Turn, watch: Watch) -> Ending | None:
    """Return how the turn ended, or None where it was handed back or taken over."""
    # Whom it was asked of and who claimed it: the bot may have been edited since.
    runtime = RUNTIMES[turn.needs or turn.bot.runtime]
    while True:
        stopped = stop_between(turn, watch)
        if stopped is not Go.ON:
            return stopped if isinstance(stopped, Ending) else None
        log = read(turn)
        begun = open_call(log)
        if begun is not None:
            if not answer_call(turn, watch, begun):
                return None
            continue
        last = next((line for line in reversed(log) if line.kind == Kind.MODEL), None)
        if last is not None and last.body["move"] == "final" and log[-1] is last:
            return final(last)
        if sum(line.kind == Kind.CALL for line in log) >= MOST_CALLS:
            return Ending(Turn.State.FAILED, phrases.TOO_MANY_CALLS)
        move = runtime.next_move(turn.instruction, log)
        if not keep(turn, move):
            return None
        points.reached("turn.message")


class Go:
    ON = object()
    HANDED_BACK = object()


def stop_between(turn: Turn, watch: Watch) -> Any:
    """Look between messages: go on, end as cancelled, or hand the turn back."""
    watch.next_look = 0.0
    reason = watch.stop()
    if reason is Stop.CANCEL:
        return Ending(Turn.State.CANCELLED, phrases.STOPPED)
    if reason is Stop.LOST:
        return Go.HANDED_BACK
    if draining.is_set():
        insist(lambda: services.release_turn(turn))
        return Go.HANDED_BACK
    return Go.ON


def read(turn: Turn) -> list[Line]:
    rows = TurnMessage.objects.filter(turn=turn).exclude(kind=Kind.OUTPUT)
    return [Line(kind, body) for kind, body in rows.values_list("kind", "body")]


def open_call(log: list[Line]) -> Line | None:
    """Return the tool call that has begun and has no result yet."""
    ended = {line.body["call"] for line in log if line.kind == Kind.RESULT}
    calls = (line for line in log if line.kind == Kind.CALL)
    return next((line for line in calls if line.body["call"] not in ended), None)


def keep(turn: Turn, move: ToolCall | Final) -> bool:
    """Write the move down before anything comes of it; False where fenced."""
    match move:
        case Final(text=text, result=result):
            body = {"move": "final", "text": text, "result": result}
            return write(turn, Kind.MODEL, body)
        case ToolCall(tool=tool, args=args, says=says):
            asked = {"move": "call", "tool": tool, "args": args, "text": says}
            number = sum(line.kind == Kind.CALL for line in read(turn)) + 1
            call = {"call": number, "tool": tool, "args": args}
            return write(turn, Kind.MODEL, asked) and write(turn, Kind.CALL, call)


def write(turn: Turn, kind: str, body: dict[str, Any]) -> bool:
    number = insist(lambda: services.log_message(turn, kind=kind, body=body))
    return number is not None


def answer_call(turn: Turn, watch: Watch, call: Line) -> bool:
    """Run the tool and write its result; False where it was interrupted or fenced."""
    outcome = tools.use(
        turn,
        call.body["tool"],
        call.body["args"],
        number=call.body["call"],
        watch=watch,
    )
    if outcome is None:
        if watch.cancelled:
            return write(
                turn, Kind.RESULT, {"call": call.body["call"], "text": "stopped"}
            )
        if not watch.lost:
            insist(lambda: services.release_turn(turn))
        return False
    points.reached("turn.tool")
    return write(turn, Kind.RESULT, {"call": call.body["call"], **outcome})


def final(line: Line) -> Ending:
    text: str = line.body["text"]
    kept = {
        "output": text[: settings.OUTPUT_LIMIT],
        "result": line.body["result"] or None,
    }
    return Ending(Turn.State.SUCCEEDED, "", text, kept)
