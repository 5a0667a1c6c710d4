"""Mail to the members a workflow names: a run waits for them, or has failed."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings

from threads import services as thread_services
from threads.envelopes import Mail
from threads.models import Member
from threads.text import one_line
from workflows import phrases
from workflows.models import Run


def url_of(run: UUID) -> str:
    return f"{settings.PUBLIC_URL.rstrip('/')}/runs/{run}/"


def readers(run: Run) -> list[Member]:
    """Return the members to tell, by user name or role, that have an address."""
    named = set(run.workflow.notify)
    if not named:
        return []
    members = Member.objects.select_related("user").filter(
        house_id=run.house_id, user__is_active=True
    )
    return [
        member
        for member in members.exclude(user__email="")
        if named & {member.user.get_username(), member.role, member.user.email}
    ]


def waiting(run_id: UUID, prompt: str) -> None:
    """Tell the members, in the transaction that opens the question."""
    run = Run.objects.select_related("workflow", "workflow__house").get(pk=run_id)
    name = run.workflow.name
    text = phrases.MAIL_WAITING_TEXT.format(
        workflow=name, prompt=prompt, url=url_of(run.pk)
    )
    send(run, subject=phrases.MAIL_WAITING.format(workflow=name), text=text)


def failed(run: Run, failure: dict[str, str]) -> None:
    """Tell the members, in the transaction that settles the run."""
    name = run.workflow.name
    text = phrases.MAIL_FAILED_TEXT.format(workflow=name, url=url_of(run.pk), **failure)
    subject = phrases.MAIL_FAILED.format(workflow=name, step=failure["step"])
    send(run, subject=subject, text=text)


def send(run: Run, *, subject: str, text: str) -> None:
    for member in readers(run):
        thread_services.post_job(
            Mail(
                to=member.user.email,
                subject=one_line(subject, 300),
                text=text[:50_000],
            ),
            house=run.workflow.house,
        )
