"""A bot's turn as a loop over its log: one model move, one tool call, one row each.

The log is the whole state. After a crash the loop goes on from its last row; a tool call
found begun but not ended runs again with the same key, or is adopted from its record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings

from threads import phrases, points, services, tenancy
from threads.exceptions import NotFound
from threads.models import Turn, TurnMessage
from threads.runtime import tools
from threads.runtime.bots import RUNTIMES
from threads.runtime.bots.protocol import (
    Brief,
    Final,
    Halted,
    Line,
    Move,
    Said,
    ToolCall,
)
from threads.runtime.commands import Output
from threads.runtime.faults import Broken
from threads.runtime.insist import insist
from threads.runtime.sandbox.protocol import Stop
from threads.runtime.watch import Watch, draining
from threads.services import Ending
from threads.text import one_line

EMPTY_REPLIES = 3  # of a model that says nothing, one after another
UNFINISHED = {"content_filter": phrases.MODEL_REFUSED, "error": phrases.MODEL_BROKE}
Kind = TurnMessage.Kind


def converse(turn: Turn, watch: Watch) -> Ending | None:
    """Return how the turn ended, or None where it was handed back or taken over."""
    brief = brief_of(turn, watch)
    while True:
        stopped = stop_between(turn, watch)
        if stopped is not Go.ON:
            return stopped if isinstance(stopped, Ending) else None
        log = read(turn)
        if (ended := decided(log)) is not None:
            return ended
        if not go_on(turn, watch, brief, log):
            return None


def go_on(turn: Turn, watch: Watch, brief: Brief, log: Sequence[Line]) -> bool:
    """Take the next step of the log; False where the work was interrupted."""
    if (begun := open_call(log)) is not None:
        return answer_call(turn, watch, begun)
    if (call := next_call(log)) is not None:
        # A fence that is gone shows at the next look.
        write(turn, Kind.CALL, call)
        points.reached("turn.call")
        return True
    # Whom it was asked of and who claimed it: the bot may have been edited since.
    runtime = RUNTIMES[turn.needs or turn.bot.runtime]
    # Words of an earlier message that nobody has seen yet are not this one's.
    brief = replace(brief, emit=Output(turn, draft=True).emit)
    if keep(turn, runtime.next_move(brief, log)):
        points.reached("turn.message")
    return True


def brief_of(turn: Turn, watch: Watch) -> Brief:
    """Return what the bot is asked and may use; people's words in it are data."""
    bot = turn.bot
    setting = phrases.AGENT_SETTING.format(name=bot.name or bot.handle)

    def secret(name: str) -> str:
        try:
            return tenancy.open_secrets(turn.house_id, [name])[name]
        except NotFound:
            raise Broken(phrases.MODEL_NO_KEY.format(name=name)) from None

    return Brief(
        prompt=turn.instruction,
        instructions=f"{bot.instructions}\n\n{setting}".strip(),
        model=bot.model,
        tools=tools.definitions(bot),
        limits=bot.limits,
        secret=secret,
        stop=watch.stop,
    )


def decided(log: Sequence[Line]) -> Ending | None:
    """Return the end that the log says: the last words, or a limit that was reached."""
    last = next((line for line in reversed(log) if line.kind == Kind.MODEL), None)
    if last is not None and last.body["move"] == "final" and log[-1] is last:
        return final(last, log)
    calls = sum(line.kind == Kind.CALL for line in log)
    if calls >= settings.TURN_CALLS and not open_call(log) and next_call(log):
        words = phrases.TOO_MANY_CALLS.format(count=settings.TURN_CALLS)
        return Ending(Turn.State.FAILED, words)
    if sum(line.kind == Kind.MODEL for line in log) >= 2 * settings.TURN_CALLS:
        words = phrases.TOO_MANY_REQUESTS.format(count=2 * settings.TURN_CALLS)
        return Ending(Turn.State.FAILED, words)
    silent = sum(line.kind == Kind.NOTE for line in log[-2 * EMPTY_REPLIES :])
    if silent >= EMPTY_REPLIES:
        words = phrases.EMPTY_AGAIN.format(count=silent)
        return Ending(Turn.State.FAILED, words)
    return None


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


def open_call(log: Sequence[Line]) -> Line | None:
    """Return the tool call that has begun and has no result yet."""
    ended = {line.body["call"] for line in log if line.kind == Kind.RESULT}
    calls = (line for line in log if line.kind == Kind.CALL)
    return next((line for line in calls if line.body["call"] not in ended), None)


def next_call(log: Sequence[Line]) -> dict[str, Any] | None:
    """Return the row of the call that was asked for and has not begun.

    A call is known by its place in the turn: the ids that models give repeat.
    """
    asked = [call for line in log if line.kind == Kind.MODEL for call in calls_in(line)]
    begun = sum(line.kind == Kind.CALL for line in log)
    return {"call": begun + 1, **asked[begun]} if begun < len(asked) else None


def calls_in(line: Line) -> list[dict[str, Any]]:
    body = line.body
    if body["move"] == "call":
        return [{"tool": body["tool"], "args": body["args"]}]
    calls: list[dict[str, Any]] = body.get("calls", [])
    return calls


def keep(turn: Turn, move: Move) -> bool:
    """Write the move down before anything comes of it; False where nothing was kept."""
    match move:
        case Final(text=text, result=result):
            body = {"move": "final", "text": text, "result": result}
            return write(turn, Kind.MODEL, body)
        case ToolCall(tool=tool, args=args, says=says):
            asked = {"move": "call", "tool": tool, "args": args, "text": says}
            return write(turn, Kind.MODEL, asked)
        case Said():
            return keep_message(turn, move)
        case Halted():
            return False  # the next look finds the cancel, or the fence gone


def keep_message(turn: Turn, said: Said) -> bool:
    """Write a model's message down; one that says nothing is answered."""
    reason = UNFINISHED.get(said.finish, "")
    if not said.calls and not said.text.strip() and not reason:
        return write(turn, Kind.NOTE, {"text": phrases.EMPTY_REPLY})
    calls = [
        {
            "tool": call.tool,
            "args": call.args,
            **({"bad": call.bad} if call.bad else {}),
        }
        for call in said.calls
    ]
    body = {
        "move": "said" if calls and not reason else "final",
        "text": said.text,
        "calls": [] if reason else calls,
        "message": said.message,
        "usage": said.usage,
        "finish": said.finish,
    }
    if reason:
        # In the log, so that whoever reads it later decides the same.
        words = one_line(said.text) or said.finish
        body["reason"] = reason.format(model=turn.bot.model, said=words)
    return write(turn, Kind.MODEL, body)


def write(turn: Turn, kind: str, body: dict[str, Any]) -> bool:
    number = insist(lambda: services.log_message(turn, kind=kind, body=body))
    return number is not None


def answer_call(turn: Turn, watch: Watch, call: Line) -> bool:
    """Run the tool and write its result; False where it was interrupted or fenced."""
    number = call.body["call"]
    if bad := call.body.get("bad"):
        return write(turn, Kind.RESULT, {"call": number, **tools.failed(bad)})
    args = call.body["args"]
    outcome = tools.use(turn, call.body["tool"], args, number=number, watch=watch)
    if outcome is None:
        if watch.cancelled:
            return write(
                turn, Kind.RESULT, {"call": number, "text": phrases.TOOL_STOPPED}
            )
        if not watch.lost:
            insist(lambda: services.release_turn(turn))
        return False
    points.reached("turn.tool")
    return write(turn, Kind.RESULT, {"call": number, **outcome})


def final(line: Line, log: Sequence[Line]) -> Ending:
    """Return the end of a turn that has answered, with what it reported last."""
    text, says = line.body["text"], shown(line)
    if reason := line.body.get("reason"):
        return Ending(Turn.State.FAILED, reason, says)
    reports = [
        one.body["result"]
        for one in log
        if one.kind == Kind.RESULT and "result" in one.body
    ]
    result = line.body.get("result") or (reports[-1] if reports else None)
    kept = {"output": text[: settings.OUTPUT_LIMIT], "result": result or None}
    return Ending(Turn.State.SUCCEEDED, "", says, kept)


def shown(line: Line) -> str:
    """Return the answer as people read it; a limit that cut it is said below it."""
    text: str = line.body["text"]
    if (more := len(text) - settings.OUTPUT_LIMIT) > 0:
        mark = phrases.ANSWER_LONG.format(count=more)
        return f"{text[: settings.OUTPUT_LIMIT]}\n\n{mark}"
    if line.body.get("finish") == "length":
        return f"{text}\n\n{phrases.ANSWER_CUT}"
    return text
