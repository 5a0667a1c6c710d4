"""What workflows refuses, one class a fact."""

from __future__ import annotations

from collections.abc import Sequence


class WorkflowError(Exception):
    """The workflow could not do that."""

    code = "refused"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.__doc__)


class NotFound(WorkflowError):
    """There is nothing here by that name."""

    code = "not_found"


class NotAllowed(WorkflowError):
    """Your role in this house does not allow that."""

    code = "not_allowed"


class RunSettled(WorkflowError):
    """The run has already ended, so it cannot be changed."""

    code = "run_settled"


class RunStopping(WorkflowError):
    """The run is being stopped, so it cannot be changed."""

    code = "run_stopping"


class NotPaused(WorkflowError):
    """The run is not paused."""

    code = "not_paused"


class StepAtWork(WorkflowError):
    """The step is at work at this moment; wait for its end, or cancel the run."""

    code = "step_at_work"


class ByHandAlready(WorkflowError):
    """Somebody has ended this step by hand already; what runs is being stopped."""

    code = "by_hand_already"


class NeedsReason(WorkflowError):
    """Say why: whoever ends a step by hand gives a reason."""

    code = "needs_reason"


class BadResult(WorkflowError):
    """The step cannot leave that result."""

    code = "bad_result"


class RunActive(WorkflowError):
    """The run has not ended yet; cancel it or wait for it first."""

    code = "run_active"


class NotReached(WorkflowError):
    """That run never got to this step; begin at an earlier one."""

    code = "not_reached"


class BadPayload(WorkflowError):
    """The payload cannot be kept."""

    code = "bad_payload"


class BadEvent(WorkflowError):
    """The event cannot be kept."""

    code = "bad_event"


class BadWorkflow(WorkflowError):
    """The workflow cannot be kept as it is written."""

    code = "bad_workflow"

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        self.problems = list(problems)
        super().__init__(
            "\n".join(
                f"{field}: {reason}" if field else reason
                for field, reason in self.problems
            )
        )
