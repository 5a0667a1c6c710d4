"""What a new house needs before its first run: an owner, a sweep, a way to sign in."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from threads import tenancy
from threads.exceptions import Malformed
from threads.models import House, Member

SWEEP = "wf:sweep"


def open_home() -> tuple[House, Any]:
    """Return the first house and its owner, made where they are not there yet."""
    with transaction.atomic():
        house = tenancy.open_house(home_slug(), name="Home")
        owner = find_person("owner")
        if owner is None:
            # The admin opens for a superuser; who that is, the sign-in link decides.
            owner = get_user_model().objects.create_superuser(
                "owner", email="owner@localhost"
            )
        if not house.members.filter(user=owner).exists():
            tenancy.add_member(house, owner, role=Member.Role.OWNER)
        mirror_sweep()
    return house, owner


def home_slug() -> str:
    """Return the first house's slug; where another stack has `home`, one of our own."""
    others = House.objects.exclude(namespace=settings.NAMESPACE)
    taken = others.filter(slug="home").exists()
    return f"home-{settings.NAMESPACE}" if taken else "home"


def mirror_sweep() -> None:
    """Let beat call the sweep, which works where no conductor does."""
    every = max(1, int(settings.SWEEP_SECONDS))
    when = {"every": every, "period": IntervalSchedule.SECONDS}
    interval = IntervalSchedule.objects.filter(**when).first()
    PeriodicTask.objects.update_or_create(
        name=SWEEP,
        defaults={
            "interval": interval or IntervalSchedule.objects.create(**when),
            "crontab": None,
            "task": "workflows.sweep",
            "args": json.dumps([]),
            "queue": "jobs",
            "expire_seconds": every,  # a sweep nobody took makes room for the next
            "enabled": True,
        },
    )


def find_person(name: str) -> Any:
    """Return who signs in under a name or an address, or None."""
    people = get_user_model().objects
    return (
        people.filter(username=name).first()
        or people.filter(email=name).exclude(email="").order_by("pk").first()
    )


def add_person(house: House, name: str, *, role: str) -> tuple[Member, bool]:
    """Add a person to the house, or change their role; True where they are new here.

    A new person has no password and signs in by a link. Raises Malformed for a name or
    a role that cannot be one; nobody is made then.
    """
    with transaction.atomic():
        person = find_person(name)
        new = person is None
        if new:
            mail = name if "@" in name else ""
            person = get_user_model()(username=name, email=mail)
            try:
                person.clean_fields(exclude=["password"])
            except ValidationError as error:
                raise Malformed(f"user: {' '.join(error.messages)}") from None
            person.set_unusable_password()
            person.save()
        return tenancy.add_member(house, person, role=role), new


def sign_in_path(person: Any) -> str:
    """Return the path that signs a person in, once, within the next days."""
    uid = urlsafe_base64_encode(force_bytes(person.pk))
    return f"/sign-in/{uid}/{default_token_generator.make_token(person)}/"
