"""Mail to the members a workflow names: a run waits for them, or has failed."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.conf import settings

from threads import services as thread_services
from threads.envelopes import Mail
from threads.models import House, Member
from threads.text import one_line
from workflows import phrases
from workflows.models import Run


def url_of(run: UUID) -> str:
    return f"{settings.PUBLIC_URL.rstrip('/')}/runs/{run}/"


def url_of_thread(code: UUID) -> str:
    return f"{settings.PUBLIC_URL.rstrip('/')}/threads/{code}/"


def readers(run: Run) -> list[Member]:
    """Return the members that the run's workflow names and that have an address."""
    return named(run.house_id, run.workflow.notify)


def named(house: int, who: Sequence[str]) -> list[Member]:
    """Return the members meant by user name, address or role, with an address."""
    if not who:
        return []
    members = Member.objects.select_related("user").filter(
        house_id=house, user__is_active=True
    )
    return [
        member
        for member in members.exclude(user__email="")
        if {*who} & {member.user.get_username(), member.role, member.user.email}
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


def opened(
    house: House, code: UUID, *, title: str, prompt: str, who: Sequence[str]
) -> None:
    """Tell the members a room is for, in the transaction that opens it."""
    text = phrases.MAIL_OPENED_TEXT.format(prompt=prompt, url=url_of_thread(code))
    subject = phrases.MAIL_OPENED.format(title=title)
    tell(house, named(house.pk, who), subject=subject, text=text)


def send(run: Run, *, subject: str, text: str) -> None:
    tell(run.workflow.house, readers(run), subject=subject, text=text)


def tell(house: House, members: Sequence[Member], *, subject: str, text: str) -> None:
    for member in members:
        thread_services.post_job(
            Mail(
                to=member.user.email,
                subject=one_line(subject, 300),
                text=text[:50_000],
            ),
            house=house,
        )
