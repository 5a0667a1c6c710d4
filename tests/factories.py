"""The same few people and workflows, made plainly."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model

from threads import tenancy
from threads.models import House
from workflows import authoring
from workflows.models import Workflow


def member(house: House, name: str, *, role: str = "member") -> Any:
    user, _ = get_user_model().objects.get_or_create(
        username=name, defaults={"email": f"{name}@example.com"}
    )
    tenancy.add_member(house, user, role=role)
    return user


def command(name: str, script: str = "true", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "run_command", "command": script, **more}


def gate(name: str = "ask", prompt: str = "Go on?", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "human_gate", "prompt": prompt, **more}


def sleep(name: str = "rest", seconds: float = 3600, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "sleep", "seconds": seconds, **more}


def prompt(name: str, words: str = "Look into it", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "dispatch_task", "prompt": words, **more}


def call(name: str, function: str = "noop", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "call", "function": function, **more}


def workflow(
    house: House, *steps: dict[str, Any], slug: str = "nightly", **more: Any
) -> Workflow:
    data = {"slug": slug, "steps": list(steps), **more}
    return authoring.save_workflow(house, data).workflow
