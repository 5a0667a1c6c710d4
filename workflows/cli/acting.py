"""Who acts, in which house, on what: fetched with the right checked in one step."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from threads import access as thread_access
from threads.exceptions import NotFound as NotHere
from threads.models import House, Member
from workflows import access, services, setup
from workflows.cli.output import Refusal
from workflows.exceptions import NotFound
from workflows.models import Run, Workflow


@dataclass(frozen=True)
class Actor:
    """A person in a house, as whom a command acts."""

    user: Any
    house: House

    def needs(self, role: str) -> None:
        thread_access.membership(self.user, self.house.pk, role=role)


def actor(*, house: str, as_: str, run: str = "") -> Actor:
    """Return who acts: the one named, else the first owner of the house (B17).

    The house is the one named, else the run's, else the person's first, else the first.
    """
    named = find_house(house) if house else run_house(run)
    if not as_:
        at = named or first_house()
        return Actor(owner(at), at)
    person = setup.find_person(as_)
    if person is None:
        raise Refusal(f"--as: there is nobody called “{as_}” here")
    mine = thread_access.houses(person).order_by("pk")
    at_home = mine.filter(pk=named.pk).first() if named else mine.first()
    if at_home is None:
        where = f"of the house “{named.slug}”" if named else "of any house here"
        raise Refusal(f"--as: {as_} is not a member {where}")
    return Actor(person, at_home)


def houses() -> QuerySet[House]:
    return House.objects.filter(namespace=settings.NAMESPACE)


def find_house(slug: str) -> House:
    found = houses().filter(slug=slug).first()
    if found is None:
        known = ", ".join(houses().values_list("slug", flat=True)[:20]) or "none"
        raise Refusal(f"--house: there is no house called “{slug}”; there is {known}")
    return found


def run_house(code: str) -> House | None:
    try:
        run_id = UUID(code)
    except ValueError:
        return None
    here = Run.objects.filter(house__in=houses())
    found = here.select_related("house").filter(pk=run_id).first()
    return found.house if found else None


def first_house() -> House:
    found = houses().order_by("pk").first()
    if found is None:
        raise Refusal(
            "There is no house here yet. `manage.py up` makes one, and so does "
            "`manage.py prepare`."
        )
    return found


def owner(house: House) -> Any:
    owners = Member.objects.select_related("user").filter(
        house=house, role=Member.Role.OWNER, user__is_active=True
    )
    first = owners.order_by("pk").first()
    if first is None:
        raise Refusal(
            f"The house “{house.slug}” has no owner to act as: name somebody with --as."
        )
    return first.user


def workflow(who: Actor, slug: str, *, role: str = "viewer") -> Workflow:
    """Return the house's workflow by slug; raise NotFound naming those like it."""
    rows = Workflow.objects.current().filter(house=who.house)
    found = rows.select_related("house", "bot").filter(slug=slug).first()
    if found is None:
        known = list(rows.values_list("slug", flat=True)[:200])
        near = get_close_matches(slug, known, n=3) or known[:5]
        there = f"; there is {', '.join(near)}" if near else "; there is none yet"
        raise NotFound(f"There is no workflow called “{slug}” here{there}.")
    who.needs(role)
    return found


def run(who: Actor, code: str, *, role: str = "viewer") -> Run:
    """Return a run as it stands now: checked, and mended where a crash left it (B18)."""
    try:
        found = access.get_run(who.user, code, role=role)
    except (NotFound, NotHere):
        found = None
    if found is None or found.house_id != who.house.pk:
        raise NotFound(f"There is no run “{code}” here; `wf runs` lists them.")
    return fresh(found) if services.look(found.pk) else found


def fresh(run: Run) -> Run:
    return Run.objects.select_related("workflow", "house").get(pk=run.pk)
