"""Workflows as rows: saved, paused, deleted. What a run was born with never changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from threads import post
from threads.models import Bot, House, Member
from workflows import beat, plan, schedules, seats, why
from workflows.exceptions import BadWorkflow
from workflows.models import Plan, Run, Workflow

FIELDS = (
    "name", "schedule", "timezone", "missed", "overlap", "limit", "max_attempts",
    "deadline", "notify",
)  # fmt: skip


@dataclass(frozen=True)
class Saved:
    """The workflow as it stands now and what the save changed, in words."""

    workflow: Workflow
    changes: list[str]
    new: bool


def save_workflow(house: House, data: object) -> Saved:
    """Create or update a workflow from its file's data, or refuse all of it.

    Runs in flight keep the plan they were born with. Raises BadWorkflow with every
    problem found; nothing is written then.
    """
    try:
        recipe = plan.parse_recipe(data)
    except plan.Refused as error:
        raise BadWorkflow([(p.field, p.reason) for p in error.problems]) from None
    problems = list(misfits(house, recipe))
    if problems:
        raise BadWorkflow(problems)
    with transaction.atomic():
        # One writer a slug: two first saves at once meet at the house's row. NO KEY: a
        # run that starts meanwhile may still refer to the house.
        House.objects.select_for_update(no_key=True).get(pk=house.pk)
        standing = (
            Workflow.objects.current().filter(house=house, slug=recipe.slug).first()
        )
        values = columns(house, recipe)
        saved = create(house, values) if standing is None else update(standing, values)
        beat.mirror(saved.workflow)
        return saved


def columns(house: House, recipe: plan.Recipe) -> dict[str, Any]:
    steps = plan.to_json(recipe)
    return {
        "slug": recipe.slug,
        "name": recipe.name,
        "bot": Bot.objects.get(house=house, handle=recipe.bot),
        "schedule": recipe.schedule or "",
        "timezone": recipe.timezone,
        "missed": recipe.missed,
        "overlap": recipe.overlap or "",
        "limit": recipe.limit,
        "max_attempts": recipe.max_attempts,
        "deadline": recipe.deadline,
        "notify": list(recipe.notify),
        "steps": steps,
        "plan": keep_plan(steps),
    }


def keep_plan(steps: list[dict[str, Any]]) -> Plan:
    """Return the plan with these steps; equal steps share one."""
    text = json.dumps(steps, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    Plan.objects.bulk_create([Plan(hash=digest, steps=steps)], ignore_conflicts=True)
    return Plan.objects.get(hash=digest)


def create(house: House, values: dict[str, Any]) -> Saved:
    workflow = Workflow.objects.create(
        house=house, next_slot_at=next_slot(values["schedule"]), **values
    )
    return Saved(workflow, ["created"], new=True)


def update(workflow: Workflow, values: dict[str, Any]) -> Saved:
    changes = list(differences(workflow, values))
    if changes:
        if workflow.schedule != values["schedule"]:
            values["next_slot_at"] = next_slot(values["schedule"])
            if not workflow.paused:  # what a broken schedule left
                values["paused_reason"] = ""
        Workflow.objects.filter(pk=workflow.pk).update(
            **values, revision=workflow.revision + 1, updated_at=Now()
        )
        workflow.refresh_from_db()
    return Saved(workflow, changes, new=False)


def differences(workflow: Workflow, values: dict[str, Any]) -> Iterator[str]:
    for name in FIELDS:
        old, new = getattr(workflow, name), values[name]
        if old != new:
            yield f"{name}: {shown(old)} → {shown(new)}"
    if workflow.bot_id != values["bot"].pk:
        yield f"bot: {workflow.bot.handle} → {values['bot'].handle}"
    before = {step["name"]: step for step in workflow.steps}
    after = {step["name"]: step for step in values["steps"]}
    yield from (f"step {name}: removed" for name in before if name not in after)
    yield from (f"step {name}: added" for name in after if name not in before)
    both = [name for name in after if name in before]
    yield from (f"step {name}: changed" for name in both if before[name] != after[name])
    if both != [name for name in before if name in after]:
        yield "steps: reordered"


def shown(value: object) -> str:
    return "none" if value in ("", None, []) else str(value)


def next_slot(schedule: str) -> Any:
    if not schedule:
        return None
    try:
        return schedules.next_after(schedules.parse(schedule), why.now())
    except schedules.BadSchedule as error:
        raise BadWorkflow([("schedule", str(error))]) from None


def misfits(house: House, recipe: plan.Recipe) -> Iterator[tuple[str, str]]:
    """Yield what is wrong in this house with a recipe that is well written."""
    bot = Bot.objects.filter(house=house, handle=recipe.bot).first()
    if bot is None:
        handles = Bot.objects.filter(house=house).values_list("handle", flat=True)
        known = ", ".join(handles)
        yield "bot", f"there is no bot called “{recipe.bot}” here; there is {known}"
    if recipe.limit is not None and recipe.overlap == "allow":
        yield "limit", "means nothing with overlap: allow; say wait, join or replace"
    people = known_people(house)
    for name in recipe.notify:
        if name not in people:
            yield "notify", f"nobody in this house is called “{name}”"
    for number, step in enumerate(recipe.steps):
        for field, reason in step_misfits(step, bot, people):
            yield f"steps[{number}].{field}", reason


def known_people(house: House) -> set[str]:
    members = Member.objects.filter(house=house).select_related("user")
    names = {member.user.get_username() for member in members}
    mails = {member.user.email for member in members if member.user.email}
    return names | mails | set(Member.Role.values)


def strangers(who: Sequence[str], people: set[str]) -> Iterator[tuple[str, str]]:
    for name in who:
        if name not in people:
            yield "who", f"nobody in this house is called “{name}”"


def step_misfits(
    step: plan.Step, bot: Bot | None, people: set[str]
) -> Iterator[tuple[str, str]]:
    match step:
        case plan.HumanGate():
            if step.answer == "form":
                yield "answer", "“form” is not available yet; use reply or choose"
            yield from strangers(step.who, people)
        case plan.OpenThread():
            yield from strangers(step.who, people)
        case plan.Call() if step.function not in settings.CALLS:
            known = ", ".join(sorted(settings.CALLS)) or "none"
            yield "function", f"“{step.function}” is not allowed here; there is {known}"
        case plan.DispatchTask():
            yield from dispatch_misfits(step, bot)
            yield from source_misfits(step)
        case plan.RunCommand():
            yield from source_misfits(step)
        case _:
            return


def dispatch_misfits(
    step: plan.DispatchTask, bot: Bot | None
) -> Iterator[tuple[str, str]]:
    if step.bot is not None and (bot is None or step.bot != bot.handle):
        yield "bot", "another bot's thread is not available yet; leave it out"
    if bot is not None and bot.runtime == "shell":
        yield "kind", f"{bot.handle} runs commands only; it has no model to ask"


def source_misfits(
    step: plan.RunCommand | plan.DispatchTask,
) -> Iterator[tuple[str, str]]:
    if step.source is None:
        return
    path = PurePosixPath(step.source)
    if ".." in path.parts or not allowed(path):
        listed = ", ".join(settings.SOURCES) or "none"
        yield "source", f"“{step.source}” is not among the allowed ones ({listed})"


def allowed(path: PurePosixPath) -> bool:
    return any(
        path == PurePosixPath(root) or PurePosixPath(root) in path.parents
        for root in settings.SOURCES
    )


def pause_workflow(workflow: Workflow, *, reason: str = "") -> None:
    """Skip slots and hold new runs back; what runs goes on."""
    Workflow.objects.filter(pk=workflow.pk).update(
        paused=True, paused_reason=reason[:200], updated_at=Now()
    )
    workflow.refresh_from_db()
    beat.mirror(workflow)


def resume_workflow(workflow: Workflow) -> None:
    """Let slots fire again, from the next one on, and held runs begin."""
    with transaction.atomic():
        Workflow.objects.filter(pk=workflow.pk).update(
            paused=False,
            paused_reason="",
            next_slot_at=next_slot(workflow.schedule),
            updated_at=Now(),
        )
        workflow.refresh_from_db()
        begin_held(workflow)
        beat.mirror(workflow)


def begin_held(workflow: Workflow) -> None:
    """Let the runs begin that the pause held back, as many as have a place."""
    seats.lock_held_back(workflow)
    held = Run.objects.filter(
        workflow=workflow, state=Run.State.PENDING, deferred=Run.PAUSED
    )
    rule = seats.rule(workflow)
    if rule is not None and rule.overlap != Workflow.Overlap.JOIN:
        held.update(deferred=Run.NO_SEAT)
        seats.fill(workflow)
        return
    ids = list(held.values_list("pk", "pool"))
    held.update(ready_at=Now(), deferred="")
    for run, pool in ids:
        post.post_ticket("workflows.advance", pool, run, queue=pool)


def delete_workflow(workflow: Workflow) -> None:
    """Take a workflow out of use; its runs, ledger and threads stay."""
    with transaction.atomic():
        Workflow.objects.filter(pk=workflow.pk).update(
            deleted_at=Now(), next_slot_at=None, updated_at=Now()
        )
        workflow.refresh_from_db()
        beat.mirror(workflow)


def export_workflow(workflow: Workflow) -> str:
    """Return the workflow's file, which `wf apply` takes back unchanged."""
    data: dict[str, Any] = {
        "slug": workflow.slug,
        "bot": workflow.bot.handle,
        "steps": workflow.steps,
    }
    for name in FIELDS:
        value = getattr(workflow, name)
        if value not in ("", None, []):
            data[name] = value
    return plan.dump_file(plan.to_dict(plan.parse_recipe(data)))
