"""What people do to a run from its page: each fetches, calls one verb and answers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from threads import text
from threads.forms import ReplyForm
from threads.pages import Refusal
from workflows import access, forms, services
from workflows.byhand import Hand
from workflows.exceptions import WorkflowError
from workflows.models import Run
from workflows.services import Start
from workflows.views import door, run_answer

REFUSED = (WorkflowError, text.Unclean)


def refused(
    request: HttpRequest,
    run: Run,
    error: Exception,
    *,
    at: str = "top",
    typed: str = "",
) -> HttpResponse:
    return run_answer(request, run, refusal=Refusal(error), at=at, typed=typed)


@require_POST
@door
def cancel(request: HttpRequest, code: UUID) -> HttpResponse:
    run = access.get_run(request.user, code, role="member")
    reason = ReplyForm(request.POST).words()
    try:
        services.cancel_run(run.pk, by=request.user, reason=reason)
    except WorkflowError as error:
        return refused(request, run, error)
    return redirect("workflows:run", run.pk)


@require_POST
@door
def pause(request: HttpRequest, code: UUID) -> HttpResponse:
    run = access.get_run(request.user, code, role="member")
    reason = ReplyForm(request.POST).words()
    try:
        services.pause_run(run.pk, by=request.user, reason=reason)
    except WorkflowError as error:
        return refused(request, run, error)
    return redirect("workflows:run", run.pk)


@require_POST
@door
def resume(request: HttpRequest, code: UUID) -> HttpResponse:
    run = access.get_run(request.user, code, role="member")
    try:
        services.resume_run(run.pk, by=request.user)
    except WorkflowError as error:
        return refused(request, run, error)
    return redirect("workflows:run", run.pk)


@require_POST
@door
def skip(request: HttpRequest, code: UUID) -> HttpResponse:
    return by_hand(request, code, skips=True)


@require_POST
@door
def set_result(request: HttpRequest, code: UUID) -> HttpResponse:
    return by_hand(request, code, skips=False)


def by_hand(request: HttpRequest, code: UUID, *, skips: bool) -> HttpResponse:
    """End the step by hand; of a run that has ended, in a retry that goes on after it."""
    run = access.get_run(request.user, code, role="author")
    typed = request.POST.get("result", "")
    step = request.POST.get("step", "")
    try:
        hand = given(request, skips=skips)
        if run.state in Run.SETTLED:
            by = request.user
            run = services.retry_run(run, by=by, from_step=step, hand=hand).run
        else:
            services.end_step(run.pk, hand, by=request.user, step=step)
    except REFUSED as error:
        return refused(request, run, error, at="hand", typed=typed)
    return redirect("workflows:run", run.pk)


def given(request: HttpRequest, *, skips: bool) -> Hand:
    reason = ReplyForm(request.POST).words()
    result = None if skips else forms.json_of(request.POST, "result")
    return Hand(reason, skips=skips, result=result)


@require_POST
@door
def retry(request: HttpRequest, code: UUID) -> HttpResponse:
    """Retry the run, from the step and with the payload named, if any."""
    run = access.get_run(request.user, code, role="member")
    step = request.POST.get("step", "")
    try:
        payload = payload_of(request)
        by = request.user
        new = services.retry_run(run, by=by, from_step=step, payload=payload).run
    except REFUSED as error:
        return at_payload(request, run, error)
    return redirect("workflows:run", new.pk)


@require_POST
@door
def again(request: HttpRequest, code: UUID) -> HttpResponse:
    run = access.get_run(request.user, code, role="member")
    try:
        payload = payload_of(request)
        kept = run.payload if payload is None else payload
        start = Start(by=request.user)
        new = services.spawn_run(run.workflow, payload=kept, start=start).run
    except REFUSED as error:
        return at_payload(request, run, error)
    return redirect("workflows:run", new.pk)


def payload_of(request: HttpRequest) -> Any:
    """Return the payload that was sent; None where the form has none."""
    sent = "payload" in request.POST
    return forms.json_of(request.POST, "payload") if sent else None


def at_payload(request: HttpRequest, run: Run, error: Exception) -> HttpResponse:
    typed = request.POST.get("payload", "")
    return refused(request, run, error, at="payload" if typed else "top", typed=typed)
