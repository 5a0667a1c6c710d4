"""Fetch and check the right in one step; what is not yours is not found."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from threads.exceptions import NotAllowed, NotFound
from threads.models import Artifact, Gate, House, Member, Thread

RANK = {"viewer": 0, "member": 1, "author": 2, "owner": 3}
NEEDS = {
    "member": "A viewer can read here, not start, answer or stop anything.",
    "author": "Only authors and owners change workflows or end steps by hand.",
    "owner": "Only owners manage the house.",
}


def houses(user: Any) -> QuerySet[House]:
    """Return a person's houses in this namespace; another stack's are not here (A43)."""
    here = House.objects.filter(namespace=settings.NAMESPACE)
    return here.filter(members__user=user) if user.is_active else here.none()


def membership(user: Any, house_id: int, *, role: str = "viewer") -> Member:
    """Return the user's membership; raise NotFound for outsiders, NotAllowed below."""
    member = (
        Member.objects.select_related("house", "user")
        .filter(user=user, house_id=house_id, house__namespace=settings.NAMESPACE)
        .first()
    )
    if member is None or not user.is_active:
        raise NotFound
    if RANK[member.role] < RANK[role]:
        raise NotAllowed(NEEDS[role])
    return member


def get_house(user: Any, slug: str = "", *, role: str = "viewer") -> House:
    """Return the house by slug, or the user's first one where none is named."""
    found = houses(user).order_by("pk")
    house = found.filter(slug=slug).first() if slug else found.first()
    if house is None:
        raise NotFound
    return membership(user, house.pk, role=role).house


def get_thread(user: Any, thread_id: UUID, *, role: str = "viewer") -> Thread:
    thread = Thread.objects.select_related("house", "bot").filter(pk=thread_id).first()
    if thread is None:
        raise NotFound
    membership(user, thread.house_id, role=role)
    return thread


def get_artifact(user: Any, artifact_id: UUID) -> Artifact:
    found = Artifact.objects.filter(pk=artifact_id).first()
    if found is None:
        raise NotFound
    membership(user, found.house_id)
    return found


def get_gate(user: Any, gate_id: UUID) -> Gate:
    gate = Gate.objects.filter(pk=gate_id).first()
    if gate is None:
        raise NotFound
    membership(user, gate.house_id)
    return gate
