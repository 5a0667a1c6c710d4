"""What a retry keeps of the run before it, and where it begins."""

from __future__ import annotations

from workflows import phrases, selectors
from workflows.exceptions import NotFound, NotReached, RunActive
from workflows.models import Checkpoint, Run


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


def keep_steps(run: Run, old: Run, *, position: int) -> None:
    """Copy the finished steps before the position; they never run again."""
    kept = Checkpoint.objects.filter(
        run=old, position__lt=position, state__in=Checkpoint.ENDED
    ).exclude(state=Checkpoint.State.CANCELLED)
    if len({step.position for step in kept}) < position:
        raise NotReached
    for step in kept:
        step.pk, step.run, step.entry = None, run, None
        step.save(force_insert=True)
    past = selectors.past_steps(run.pk, run.plan_id)
    failed = next(
        (p for p in past if p.state == "failed" and p.on_error == "stop"), None
    )
    if failed is not None:
        refuse_skipped(run, failed.name)
        failure = {"step": failed.name, "reason": failed.reason}
        Run.objects.filter(pk=run.pk).update(failure=failure)


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
