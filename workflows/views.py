"""Pages of runs and workflows: fetch through access, call one verb, answer."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from threads import gates
from threads.exceptions import ThreadError
from threads.forms import AnswerForm, ReplyForm
from threads.pages import Refusal, digest, page, unchanged
from workflows import access, documents, forms, selectors, services
from workflows.exceptions import BadPayload, NotFound, WorkflowError
from workflows.models import Run, RunThread
from workflows.services import Start
from workflows.shown import lists
from workflows.shown import run as shown

door = page(ThreadError, WorkflowError)
NEWEST = 8


@require_safe
@door
def inbox(request: HttpRequest) -> HttpResponse:
    inbox = lists.inbox(request.user)
    newest = documents.runs(request.user, limit=NEWEST)
    context = {
        "here": "inbox",
        "inbox": inbox,
        "rows": lists.rows(request.user, newest["runs"]),
        "seen": digest(inbox.seen, newest["runs"]),
    }
    return listed(request, "inbox", context)


@require_safe
@door
def runs(request: HttpRequest) -> HttpResponse:
    chosen = forms.FilterForm(request.GET).chosen()
    found = documents.runs(request.user, **{**chosen, "limit": chosen["limit"] + 1})
    shown_runs = found["runs"][: chosen["limit"]]
    context = {
        "here": "runs",
        "chosen": chosen,
        "states": Run.State.values,
        "names": lists.choices(request.user),
        "rows": lists.rows(request.user, shown_runs),
        "more": min(chosen["limit"] * 2, forms.MOST)
        if len(found["runs"]) > len(shown_runs)
        else 0,
        "conductor": found["conductor"],
        "unclaimed": lists.unclaimed_words(found["unclaimed"]),
        "seen": digest(
            shown_runs, found["unclaimed"]["count"], found["conductor"]["alive"]
        ),
    }
    return listed(request, "runs", context)


@require_safe
@door
def workflows(request: HttpRequest) -> HttpResponse:
    found = documents.workflows(request.user)
    last = [flow["last_run"] for flow in found if flow["last_run"]]
    rows = {row["id"]: row for row in lists.rows(request.user, last)}
    startable = lists.startable(request.user)
    for flow in found:
        flow["last_run"] = flow["last_run"] and rows[flow["last_run"]["id"]]
        flow["may_start"] = flow["house"] in startable
    context = {"here": "workflows", "workflows": found, "seen": digest(found)}
    return listed(request, "workflows", context)


def listed(request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
    """Answer with the page, or with the list alone where the page asks for news."""
    if not request.GET.get("part"):
        return render(request, f"workflows/{name}.html", context)
    if unchanged(request, context["seen"]):
        return HttpResponse(status=204)
    return render(request, f"workflows/_{name}.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@door
def start(request: HttpRequest, slug: str) -> HttpResponse:
    workflow = access.get_workflow(request.user, slug, role="member")
    form = forms.StartForm(request.POST or None)
    if form.is_valid():
        key = f"page:{form.cleaned_data['once']}"
        payload = form.cleaned_data["payload"]
        try:
            by = Start(by=request.user)
            run = services.spawn_run(workflow, payload=payload, key=key, start=by).run
        except BadPayload as error:
            form.add_error("payload", forms.beside(error))
        else:
            return redirect("workflows:run", run.pk)
    context = {
        "here": "workflows",
        "workflow": workflow,
        "form": form,
        "names": forms.payload_names(workflow),
        "outline": lists.outline(workflow),
    }
    status = 422 if form.errors else 200
    return render(request, "workflows/start.html", context, status=status)


@require_safe
@door
def run_page(request: HttpRequest, code: UUID) -> HttpResponse:
    return run_answer(request, looked_at(request, code))


@require_safe
@door
def run_body(request: HttpRequest, code: UUID) -> HttpResponse:
    run = access.get_run(request.user, code)
    if run.state != Run.State.PENDING:
        # Every look at a late one posts a ticket: pages left open would multiply them.
        run = looked_at(request, code)
    page = shown.run(request.user, run, whole=whole(request))
    if unchanged(request, page.seen):
        return HttpResponse(status=204)
    return render(request, "workflows/_run.html", run_context(request, page))


@require_safe
@door
def run_of(request: HttpRequest, thread: UUID) -> HttpResponse:
    run = RunThread.objects.filter(thread=thread).values_list("run", flat=True).first()
    if run is None:
        raise NotFound
    return redirect("workflows:run", access.get_run(request.user, run).pk)


def looked_at(request: HttpRequest, code: UUID) -> Run:
    """Return the run after the one-run check, which mends what a crash left (B18)."""
    run = access.get_run(request.user, code)
    return access.get_run(request.user, code) if services.look(run.pk) else run


def whole(request: HttpRequest) -> bool:
    return request.GET.get("entries") == "all"


def run_answer(
    request: HttpRequest,
    run: Run,
    *,
    refusal: Refusal | None = None,
    at: str = "top",
    typed: str = "",
) -> HttpResponse:
    """Answer with the run's page; a refusal stands at its form, with what was typed."""
    page = shown.run(request.user, run, whole=whole(request))
    words = str(refusal) if refusal else ""
    context = {**run_context(request, page), "typed": typed, f"refused_{at}": words}
    status = refusal.status if refusal else 200
    return render(request, "workflows/run.html", context, status=status)


def run_context(request: HttpRequest, page: shown.Shown) -> dict[str, Any]:
    return {
        "here": "runs",
        "page": page,
        "run": page.run,
        "kept": shown.kept_by_retry(page),
        "payload": json.dumps(page.run.payload, indent=2, ensure_ascii=False),
        "names": [step["name"] for step in selectors.plan_steps(page.run.plan_id)],
        "whole": whole(request),
    }


@require_POST
@door
def decide(request: HttpRequest, code: UUID) -> HttpResponse:
    run = access.get_run(request.user, code)
    form = AnswerForm(request.POST)
    typed = request.POST.get("comment", "") or request.POST.get("answer", "")
    try:
        given = form.given()
        gates.decide(
            given["gate"],
            person=request.user,
            answer=given["answer"],
            comment=given["comment"],
            door="page",
        )
    except ThreadError as error:
        return run_answer(request, run, refusal=Refusal(error), typed=typed)
    return redirect("workflows:run", run.pk)


@require_POST
@door
def reply(request: HttpRequest, code: UUID) -> HttpResponse:
    run = access.get_run(request.user, code)
    thread = RunThread.objects.values_list("thread", flat=True).get(run=run)
    words = ReplyForm(request.POST).words()
    try:
        gates.speak(thread, person=request.user, text=words)
    except ThreadError as error:
        refusal = Refusal(error)
        return run_answer(request, run, refusal=refusal, at="reply", typed=words)
    return redirect(f"{run_url(run)}#end")


def run_url(run: Run) -> str:
    return redirect("workflows:run", run.pk).url
