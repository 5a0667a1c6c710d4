"""What threads refuses, one class a fact."""

from __future__ import annotations


class ThreadError(Exception):
    """The house could not do that."""

    code = "refused"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.__doc__)


class NotFound(ThreadError):
    """There is nothing here by that name."""

    code = "not_found"


class NotAllowed(ThreadError):
    """Your role in this house does not allow that."""

    code = "not_allowed"


class GateClosed(ThreadError):
    """The question has already been answered."""

    code = "gate_closed"


class NotYourGate(ThreadError):
    """This question is for somebody else to answer."""

    code = "not_your_gate"


class AlreadyAnswered(ThreadError):
    """You have already answered this question."""

    code = "already_answered"


class BadAnswer(ThreadError):
    """That is not an answer this question takes."""

    code = "bad_answer"


class Malformed(ThreadError):
    """The text holds something that cannot be kept."""

    code = "malformed"


class BadEnvelope(ThreadError):
    """The job's payload does not fit its type."""

    code = "bad_envelope"


class TurnBusy(ThreadError):
    """The bot is already at work in this thread."""

    code = "turn_busy"
