"""What every page does alike: who may see it, what a refusal looks like, what is new."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import add_never_cache_headers

View = Callable[..., HttpResponseBase]

STATUS = {
    "not_found": 404,
    "not_allowed": 403,
    "not_your_gate": 403,
    "gate_closed": 409,
    "already_answered": 409,
    "run_settled": 409,
    "run_active": 409,
    "run_stopping": 409,
    "not_paused": 409,
    "step_at_work": 409,
    "by_hand_already": 409,
    "not_reached": 409,
    "needs_reason": 422,
    "bad_result": 422,
    "bad_answer": 422,
    "malformed": 422,
    "bad_payload": 422,
    "bad_workflow": 422,
}
AWAY = {"Retry-After": "2"}


class Refusal(Exception):
    """A verb said no; its code says which status that is."""

    def __init__(self, error: Exception) -> None:
        self.code: str = getattr(error, "code", "refused")
        self.status = STATUS.get(self.code, 400)
        super().__init__(str(error))


def steady(view: View) -> View:
    """Answer an absent database in words."""

    @wraps(view)
    def answer(request: HttpRequest, **named: Any) -> HttpResponseBase:
        try:
            return view(request, **named)
        except (OperationalError, InterfaceError):
            # Without the request: who signed in stands in the database as well.
            html = render_to_string("project/away.html")
            return HttpResponse(html, status=503, headers=AWAY)

    return answer


def page(*refusals: type[Exception]) -> Callable[[View], View]:
    """Ask for sign-in, and answer refusals and an absent database in words."""

    def door(view: View) -> View:
        inside = login_required(view)

        @steady
        @wraps(view)
        def answer(request: HttpRequest, **named: Any) -> HttpResponseBase:
            try:
                response = inside(request, **named)
            except refusals as error:
                return refused(request, Refusal(error))
            add_never_cache_headers(response)  # nothing stays behind after signing out
            return response

        return answer

    return door


def refused(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    if refusal.status == 404:
        raise Http404(str(refusal))
    context = {"words": str(refusal)}
    return render(request, "project/refused.html", context, status=refusal.status)


def digest(*values: Any) -> str:
    """Return a short mark of what is shown, equal as long as nothing changed."""
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def unchanged(request: HttpRequest, seen: str) -> bool:
    """Tell whether the reader already has what the mark stands for."""
    return request.GET.get("seen") == seen
