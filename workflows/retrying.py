"""What a retry keeps of the run before it, and where it begins."""

from __future__ import annotations

from django.db.models.functions import Now

from threads.locking import append_entry
from workflows import phrases, selectors, why
from workflows.byhand import SILENT, Hand
from workflows.exceptions import NotFound, NotReached, RunActive
from workflows.models import Checkpoint, Event, Run, RunThread
from workflows.moments import stamp


def begins_at(run: Run, from_step: str) -> tuple[int, list[str]]:
    """Return the position at which a retry begins, and the names of the steps.

    Raises RunActive for a run that has not ended, NotFound or NotReached for a step it
    cannot begin at.
    """
    if run.state not in Run.SETTLED:
        raise RunActive
    if run.state == Run.State.COMPLETED and not from_step:
        raise NotReached(phrases.NOTHING_TO_RETRY)
    names = [step["name"] for step in selectors.plan_steps(run.plan_id)]
    if from_step and from_step not in names:
        known = ", ".join(names)
        raise NotFound(f"There is no step called “{from_step}”; there are {known}.")
    return names.index(from_step) if from_step else first_failed(run, names), names


def keep_steps(run: Run, old: Run, *, hand: Hand | None, who: str) -> None:
    """Copy the finished steps before the position; they never run again.

    With a hand, the last of them ends by hand instead.
    """
    position = run.position - (1 if hand else 0)
    kept = Checkpoint.objects.filter(
        run=old, position__lt=position, state__in=Checkpoint.ENDED
    ).exclude(state=Checkpoint.State.CANCELLED)
    if len({step.position for step in kept}) < position:
        raise NotReached
    for step in kept:
        step.pk, step.run, step.entry = None, run, None
        step.save(force_insert=True)
    if hand is not None:
        end_by_hand(run, old, position, hand, who=who)
    past = selectors.past_steps(run.pk, run.plan_id)
    failed = next(
        (p for p in past if p.state == "failed" and p.on_error == "stop"), None
    )
    if failed is not None:
        refuse_skipped(run, failed.name)
        failure = {"step": failed.name, "reason": failed.reason}
        Run.objects.filter(pk=run.pk).update(failure=failure)


def end_by_hand(run: Run, old: Run, position: int, hand: Hand, *, who: str) -> None:
    """Record the step that a person ends, say so in the thread and emit its event."""
    stored = selectors.plan_steps(run.plan_id)[position]
    kind, at = stored["kind"], stamp(why.now())
    known = {"by": who, "until": at, "event": stored.get("event", "")}
    words = hand.kept(kind, who=who, at=at, known=known)
    tried = Checkpoint.objects.filter(run=old, position=position).last()
    Checkpoint.objects.create(
        run=run,
        position=position,
        name=stored["name"],
        kind=kind,
        state=words["state"],
        instruction=tried.instruction if tried else "",
        result=words["result"],
        error=words["reason"] if hand.skips else "",
        by_hand=words,
        finished_at=Now(),
    )
    if kind not in SILENT:
        Event.objects.create(
            house=run.house,
            name=f"wf.step.done:{run.pk}:{position}",
            key=str(run.pk),
            payload={"state": words["state"], "reason": words["reason"]},
        )
    said = phrases.SKIPPED_BY_HAND if hand.skips else phrases.SET_BY_HAND
    thread = RunThread.objects.values_list("thread", flat=True).get(run=run)
    entry = said.format(step=stored["name"], who=who, reason=words["reason"])
    append_entry(thread, entry)


def refuse_skipped(run: Run, failed: str) -> None:
    """Refuse to begin at a step that the kept failure would only skip."""
    step = selectors.step_at(run.plan_id, run.position)
    if getattr(step, "when", "") == "on_success":
        raise NotReached(
            f"“{failed}” failed before that step and stops the run; "
            f"begin at “{failed}” or earlier."
        )


def first_failed(run: Run, names: list[str]) -> int:
    """Return where a retry begins: what failed the run or was cancelled, or came next."""
    for step in selectors.past_steps(run.pk, run.plan_id):
        stopped = step.state == "failed" and step.on_error == "stop"
        if stopped or step.state == "cancelled":
            return names.index(step.name)
    if run.failure and run.failure["step"] in names:
        return names.index(run.failure["step"])
    return min(run.position, len(names) - 1)
