"""Houses, members, bots and secrets: the verbs of set-up."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from threads import phrases
from threads.exceptions import Malformed, NotAllowed, NotFound
from threads.models import Bot, House, Member, Secret

DATABASE = "db."  # before the name of a database: no command can ask for that
DATABASE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]*://")


def open_house(slug: str, *, name: str) -> House:
    """Return the house, made with its bot `runner` where it is new."""
    house, _ = House.objects.get_or_create(
        slug=slug, defaults={"name": name, "namespace": settings.NAMESPACE}
    )
    furnish(house)
    return house


def furnish(house: House) -> None:
    """Give a house the bot every workflow names where it says nothing."""
    Bot.objects.get_or_create(
        house=house,
        handle="runner",
        defaults={"name": "runner", "runtime": "scripted"},
    )


def add_member(house: House, user: Any, *, role: str) -> Member:
    """Add a person to the house, or change their role."""
    if role not in Member.Role.values:
        roles = ", ".join(Member.Role.values)
        raise Malformed(f"role: “{role}” is not one of {roles}")
    with transaction.atomic():
        House.objects.select_for_update(no_key=True).get(pk=house.pk)
        owners = Member.objects.filter(house=house, role=Member.Role.OWNER)
        others = owners.exclude(user=user).filter(user__is_active=True)
        leaves = role != Member.Role.OWNER and owners.filter(user=user).exists()
        if leaves and not others.exists():
            raise NotAllowed(phrases.LAST_OWNER.format(house=house.name))
        member, _ = Member.objects.update_or_create(
            house=house, user=user, defaults={"role": role}
        )
        return member


def box() -> Fernet:
    digest = hashlib.sha256(settings.SECRETS_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))


def refuse_name(name: str) -> None:
    """Refuse a name that is no variable's and, as db.NAME, no database's."""
    database = name.removeprefix(DATABASE)
    if database != name and not DATABASE_NAME.fullmatch(database):
        raise Malformed(f"name: “{name}” must be db. and letters, digits, - or _")
    if database == name and not (name.isidentifier() and name.isascii()):
        raise Malformed(f"name: “{name}” must be letters, digits and _")


def refuse_value(name: str, value: str) -> None:
    if not value or "\0" in value:
        raise Malformed("value: it is empty or holds a NUL character")
    if name.startswith(DATABASE) and not ADDRESS.match(value):
        raise Malformed(
            "value: a database's address begins as postgresql://, mysql:// or sqlite:///"
        )


def set_secret(house: House, name: str, value: str) -> None:
    """Keep a value encrypted under a name that commands may ask for, or as db.NAME."""
    refuse_name(name)
    refuse_value(name, value)
    Secret.objects.update_or_create(
        house=house,
        name=name,
        defaults={"value": box().encrypt(value.encode()), "updated_at": Now()},
    )


def remove_secret(house: House, name: str) -> None:
    removed, _ = Secret.objects.filter(house=house, name=name).delete()
    if not removed:
        raise NotFound(f"There is no secret called “{name}” here.")


def secret_names(house: House) -> list[str]:
    return list(
        Secret.objects.filter(house=house)
        .order_by("name")
        .values_list("name", flat=True)
    )


def open_secrets(house_id: int, names: list[str]) -> dict[str, str]:
    """Return the named values; raise NotFound naming the first that is missing."""
    if not names:
        return {}
    rows = {
        secret.name: secret.value
        for secret in Secret.objects.filter(house_id=house_id, name__in=names)
    }
    values = {}
    for name in names:
        if name not in rows:
            raise NotFound(f"there is no secret called “{name}” in this house")
        try:
            values[name] = box().decrypt(bytes(rows[name])).decode()
        except InvalidToken:
            raise NotFound(
                f"the secret “{name}” was kept under another key; set it again"
            ) from None
    return values


def database_address(house_id: int, name: str) -> str:
    """Return the address kept as db.NAME; raise NotFound where there is none."""
    if not Secret.objects.filter(house_id=house_id, name=f"{DATABASE}{name}").exists():
        raise NotFound(phrases.NO_DATABASE.format(name=name))
    return open_secrets(house_id, [f"{DATABASE}{name}"])[f"{DATABASE}{name}"]
