"""What a step says, with the run's payload and earlier results put in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import connection

from threads import phrases as thread_phrases
from threads.models import Entry
from workflows import (
    durations,
    moments,
    phrases,
    plan,
    selectors,
    sending,
    templating,
)
from workflows.journal import Held, Line


def scope(held: Held, step: plan.Step) -> templating.Scope:
    """Return what the step's placeholders may see; earlier results only where named."""
    named = {
        path.split(".")[1]
        for value in plan.template_fields(step).values()
        for path in templating.paths(value)
        if path.startswith("steps.")
    }
    steps = selectors.step_results(held.id, sorted(named)) if named else {}
    run = {
        "id": str(held.id),
        "key": held.key,
        "started_at": moments.stamp(held.started_at),
    }
    return templating.Scope(payload=held.payload, run=run, steps=steps)


def instruction(
    step: plan.RunCommand | plan.DispatchTask, see: templating.Scope
) -> str:
    text = step.command if isinstance(step, plan.RunCommand) else step.prompt
    return templating.render_text(text, see.resolve)


def ask(
    held: Held, step: plan.RunCommand | plan.DispatchTask, see: templating.Scope
) -> dict[str, Any]:
    """Return what the bot is asked: the instruction and how to run it."""
    key = sending.step_key(held.id, held.position, held.iteration)
    env = {
        name: templating.render_text(value, see.resolve)
        for name, value in step.env.items()
    }
    return {
        "instruction": instruction(step, see),
        "root": held.root,
        "spec": {
            "workspace": str(held.id),
            "inherits": str(held.retry_of) if held.retry_of else "",
            "step": step.name,
            "tries": held.step_tries,
            "timeout": step.timeout,
            "network": step.network,
            "source": step.source,
            "secrets": list(step.secrets),
            "artifacts": list(step.artifacts),
            "if_interrupted": step.if_interrupted,
            "env": {
                **env,
                "THREADWORK_RUN": str(held.id),
                "THREADWORK_STEP": step.name,
                "THREADWORK_KEY": key,
            },
        },
    }


class BadSleep(ValueError):
    """A rendered duration or moment cannot be read."""


def sleep_time(step: plan.Sleep, see: templating.Scope) -> tuple[float, str]:
    """Return the seconds to sleep from now, and what the thread says of it.

    Nothing or less for a time that has passed. Raises BadSleep naming the field.
    """
    try:
        if step.until is not None:
            text = templating.render_text(step.until, see.resolve)
            until = durations.read_moment(text)
            words = phrases.SLEEPING_UNTIL.format(until=until)
            return (until - database_now()).total_seconds(), words
        value = templating.render_value(step.seconds, see.resolve)
        seconds = float(durations.read_duration(value))
        lasting = thread_phrases.seconds(seconds)
        return seconds, phrases.SLEEPING_FOR.format(duration=lasting)
    except templating.Unresolved:
        raise
    except ValueError as error:
        field = "until" if step.until is not None else "seconds"
        raise BadSleep(f"{field}: {error}") from None


def instructed(step: str, words: str) -> Line:
    return Line(words, kind=Entry.Kind.INSTRUCTION, data={"step": step})


def database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now.astimezone(UTC)
