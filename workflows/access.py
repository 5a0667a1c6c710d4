"""Fetch and check the right in one step; what is not yours is not found."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from threads import access as thread_access
from threads.exceptions import NotFound as NotHere
from workflows.exceptions import NotFound
from workflows.models import Run, Workflow

TAIL = re.compile(r"[0-9a-f]{6,12}")
MANY = 100  # houses
TAIL_REACH = 10_000  # runs looked through for a short id, newest first


def get_workflow(user: Any, slug: str, *, role: str = "viewer") -> Workflow:
    """Return a workflow of one of the user's houses by slug."""
    houses = thread_access.houses(user)
    slug = slug.replace("\0", "")  # no slug holds one, and no query may
    found = (
        Workflow.objects.current()
        .select_related("house", "bot")
        .filter(house__in=houses, slug=slug)
        .order_by("house_id")
        .first()
    )
    if found is None:
        raise NotFound(f"There is no workflow called “{slug}” here.")
    thread_access.membership(user, found.house_id, role=role)
    return found


def runs(user: Any) -> QuerySet[Run]:
    """Return the runs of a person's houses.

    Of the one house most people have, the newest are read off its index in order.
    """
    houses = list(thread_access.houses(user).values_list("pk", flat=True)[:MANY])
    if len(houses) == 1:
        return Run.objects.filter(house=houses[0])
    if len(houses) < MANY:
        return Run.objects.filter(house__in=houses)
    return Run.objects.filter(house__in=thread_access.houses(user))


def get_run(user: Any, code: UUID | str, *, role: str = "viewer") -> Run:
    """Return a run by its id, or by the end of it as lists show it."""
    rows = runs(user).select_related("workflow", "house")
    whole = whole_id(user, code)
    run = rows.filter(pk=whole).first() if whole else None
    if run is None:
        raise NotFound("There is no such run here.")
    try:
        thread_access.membership(user, run.house_id, role=role)
    except NotHere:
        raise NotFound("There is no such run here.") from None
    return run


def whole_id(user: Any, code: UUID | str) -> UUID | None:
    if isinstance(code, UUID):
        return code
    try:
        return UUID(code)
    except ValueError:
        pass
    if not TAIL.fullmatch(code):
        return None
    newest = runs(user).order_by("-created_at").values_list("pk", flat=True)
    found = [pk for pk in newest[:TAIL_REACH] if pk.hex.endswith(code)]
    return found[0] if len(found) == 1 else None
