"""A real web process as a person or a probe meets it."""

from __future__ import annotations

from typing import Any
from urllib import parse, request
from uuid import uuid4

from django.test import Client

from threads.models import House, Member


class Browser:
    """A signed-in person who presses the start button of a real web process."""

    def __init__(self, person: Any, address: str) -> None:
        client = Client()
        client.force_login(person)
        self.address, self.token = address, "x" * 32
        session = client.cookies["sessionid"].value
        self.cookies = f"sessionid={session}; csrftoken={self.token}"

    def press(self, slug: str, *, once: str = "") -> str:
        """Start the workflow; return the address of the run one is led to."""
        form = {
            "csrfmiddlewaretoken": self.token,
            "payload": "",
            "once": once or str(uuid4()),
        }
        asked = request.Request(  # noqa: S310  our own web process
            f"{self.address}/workflows/{slug}/start/",
            data=parse.urlencode(form).encode(),
            headers={"Cookie": self.cookies},
        )
        with request.urlopen(asked, timeout=30) as answer:  # noqa: S310
            assert answer.status == 200
            return str(answer.geturl())


def answers(address: str) -> bool:
    try:
        with request.urlopen(f"{address}/healthz", timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False


def owner(home: House) -> Any:
    return Member.objects.get(house=home, role="owner").user
