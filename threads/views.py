"""Signing in, and the pages of rooms."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model, login, views
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils.http import urlsafe_base64_decode
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from threads import access, downloads, gates, shown
from threads.exceptions import NotFound, ThreadError
from threads.forms import AnswerForm, ReplyForm
from threads.models import Entry, Gate, Thread
from threads.pages import Refusal, page

door = page(ThreadError)
ENTRIES = 500


@require_safe
@door
def artifact(request: HttpRequest, code: UUID) -> StreamingHttpResponse:
    return downloads.answer(request, access.get_artifact(request.user, code))


class SignIn(views.LoginView):
    template_name = "threads/sign_in.html"
    redirect_authenticated_user = True


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@csrf_protect
def one_time(request: HttpRequest, uidb64: str, token: str) -> HttpResponse:
    """Show whom the link signs in; only the button's POST does, and uses it up."""
    user = user_of(uidb64)
    if user is None or not default_token_generator.check_token(user, token):
        return render(request, "threads/link_used.html", status=410)
    if request.method == "POST":
        login(request, user, backend="django.contrib.auth.backends.ModelBackend")
        return redirect("/")
    return render(request, "threads/one_time.html", {"person": user})


def user_of(uidb64: str) -> Any:
    try:
        code = urlsafe_base64_decode(uidb64).decode()
        return get_user_model().objects.filter(pk=code, is_active=True).first()
    except (ValueError, OverflowError, ValidationError):
        return None


@require_safe
@door
def thread(request: HttpRequest, code: UUID) -> HttpResponse:
    room = access.get_thread(request.user, code)
    if room.kind == Thread.Kind.RUN:
        return redirect("workflows:run-of", room.pk)
    return room_answer(request, room)


def room_answer(
    request: HttpRequest,
    room: Thread,
    *,
    refusal: Refusal | None = None,
    typed: str = "",
) -> HttpResponse:
    member = access.membership(request.user, room.house_id)
    rows = Entry.objects.filter(thread=room).order_by("-number")[:ENTRIES]
    gate = Gate.objects.filter(thread=room, state=Gate.State.OPEN).first()
    context = {
        "room": room,
        "lines": shown.lines([entry_line(row) for row in reversed(rows)]),
        "ask": shown.ask(gate, member, user=request.user) if gate else None,
        "may_speak": access.RANK[member.role] >= access.RANK["member"],
        "refused_reply": str(refusal) if refusal else "",
        "typed": typed,
    }
    status = refusal.status if refusal else 200
    return render(request, "threads/thread.html", context, status=status)


def entry_line(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "author": {"kind": entry.author_kind, "name": entry.author_name},
        "kind": entry.kind,
        "asks": bool(entry.data and entry.data.get("ask")),
        "body": entry.body,
        "created_at": entry.created_at,
    }


@require_POST
@door
def reply(request: HttpRequest, code: UUID) -> HttpResponse:
    room = access.get_thread(request.user, code)
    words = ReplyForm(request.POST).words()
    try:
        gates.speak(room.pk, person=request.user, text=words)
    except NotFound:
        raise
    except ThreadError as error:
        return room_answer(request, room, refusal=Refusal(error), typed=words)
    return redirect("threads:thread", room.pk)


@require_POST
@door
def decide(request: HttpRequest, code: UUID) -> HttpResponse:
    room = access.get_thread(request.user, code)
    form = AnswerForm(request.POST)
    try:
        given = form.given()
        gates.decide(
            given["gate"],
            person=request.user,
            answer=given["answer"],
            comment=given["comment"],
            door="page",
        )
    except NotFound:
        raise
    except ThreadError as error:
        typed = form.data.get("comment", "")
        return room_answer(request, room, refusal=Refusal(error), typed=typed)
    return redirect("threads:thread", room.pk)
