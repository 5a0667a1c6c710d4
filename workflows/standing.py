"""Where a run stands that waits for something of its own kind: the words for each."""

from __future__ import annotations

from threads import phrases as thread_phrases
from workflows import phrases, selectors
from workflows.models import Checkpoint, Run, RunThread
from workflows.moments import plain


def paused(run: Run) -> str:
    """Say who has paused a run, since when and why; nothing where nobody has."""
    if run.paused_at is None or run.state in Run.SETTLED:
        return ""
    who, _, reason = run.paused_words.partition("\n")
    words = phrases.WHY["held_because" if reason else "held"]
    return words.format(who=who or "System", since=plain(run.paused_at), reason=reason)


def stopping(run: Run) -> str:
    """Say why a run is being stopped: somebody asked, or its time is over."""
    since = plain(run.cancel_asked_at or run.created_at)
    if run.overdue:
        limit = thread_phrases.seconds(run.deadline or 0)
        return phrases.WHY["overdue"].format(limit=limit, since=since)
    return phrases.WHY["stopping"].format(since=since)


def by_hand(run: Run) -> str:
    """Say who has ended the step that is still being stopped; nothing where nobody."""
    here = Checkpoint.objects.filter(
        run=run, position=run.position, iteration=run.iteration, by_hand__isnull=False
    )
    step = here.first()
    if step is None or step.by_hand is None:
        return ""
    return phrases.WHY["by_hand"].format(
        step=f"“{step.name}”", who=step.by_hand["by"], reason=step.by_hand["reason"]
    )


def for_event(run: Run, wait: RunThread) -> str:
    until = phrases.UNTIL.format(until=plain(run.due_at)) if run.due_at else ""
    key = phrases.WITH_KEY.format(key=wait.event_key) if wait.event_key else ""
    return phrases.WHY["event"].format(
        event=wait.event_name,
        key=key,
        since=plain(wait.await_started_at or run.created_at),
        until=until,
    )


def for_run(run: Run, wait: RunThread) -> str:
    awaited = Run.objects.select_related("workflow").filter(pk=str(wait.await_run))
    child = awaited.first()
    until = phrases.UNTIL.format(until=plain(run.due_at)) if run.due_at else ""
    return phrases.WHY["run"].format(
        run=wait.await_run,
        workflow=child.workflow.slug if child else "",
        state=child.state if child else "gone",
        since=plain(wait.await_started_at or run.created_at),
        until=until,
    )


def between(run: Run) -> str:
    """Say which iteration of a step comes when."""
    step = selectors.step_at(run.plan_id, run.position)
    return phrases.WHY["between"].format(
        step=f"“{step.name}”" if step else "",
        iteration=iteration(run.plan_id, run.position, run.iteration),
        at=plain(run.due_at) if run.due_at else "",
    )


def iteration(plan_id: int, position: int, number: int) -> str:
    """Say which iteration of a step this is, of how many; nothing where it has one."""
    repeat = selectors.repeat_at(plan_id, position)
    if repeat is None:
        return ""
    return f"{number} of {repeat.times}" if repeat.times else str(number)
