"""A run as its page shows it: words and choices, made before the template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils.html import format_html

from threads import access as thread_access
from threads import shown
from threads.access import RANK
from threads.models import Gate, Member
from threads.pages import digest
from threads.phrases import size
from workflows import documents, phrases, selectors, standing, why
from workflows.models import Run, RunThread
from workflows.shown.chips import KINDS, STATES, Chip, took
from workflows.shown.hands import Hands, hands_on
from workflows.shown.kin import Kin, children, retries
from workflows.shown.live import Live, live

ENTRIES = 500
SHOWN = 3  # iterations of a step, the last ones
TRIGGERS = {
    "manual": "by hand",
    "api": "by the API",
    "schedule": "by its schedule",
    "webhook": "by a webhook",
    "event": "by an event",
    "mention": "by a mention",
    "retry": "to retry another run",
    "run": "by another run",
}


@dataclass(frozen=True)
class Step:
    """A step in the slim timeline."""

    name: str
    chip: Chip
    kind: str
    again: str = ""
    took: str = ""
    entry: int = 0
    hand: str = ""  # who ended it, and why
    earlier: int = 0  # iterations before it that are not shown
    step: str = ""  # its name in the plan


@dataclass(frozen=True)
class Marks:
    """What each part of the page stands for; a part is drawn again when it changed."""

    head: str
    steps: str
    ask: str
    live: str
    moves: str
    reply: str
    files: str

    @property
    def all(self) -> str:
        return digest(*vars(self).values())


@dataclass(frozen=True)
class Shown:
    """Everything the run page says."""

    run: Run
    doc: dict[str, Any]
    chip: Chip
    why: str
    steps: list[Step]
    lines: list[shown.Line]
    ask: shown.Ask | None
    live: Live | None
    retries: list[Kin]
    children: list[Kin]
    hand: Hands | None
    may_act: bool
    may_edit: bool
    role: str

    @property
    def active(self) -> bool:
        return self.run.state in Run.ACTIVE

    @property
    def stopping(self) -> bool:
        return self.active and self.run.cancel_asked_at is not None

    @property
    def paused(self) -> str:
        return standing.paused(self.run)

    @property
    def may_speak(self) -> bool:
        """Tell whether the reply box stands; a question for words has its own."""
        words = (
            self.ask is not None and self.ask.yours and self.ask.gate.kind == "reply"
        )
        return self.active and self.may_act and not words

    @property
    def every(self) -> str:
        return "every 2s" if self.active else "every 60s"

    @property
    def took(self) -> str:
        return took(self.doc["started_at"], self.doc["finished_at"])

    @property
    def used(self) -> str:
        """Say what its models have used, if it has any."""
        return phrases.used(self.doc["usage"])

    @property
    def trigger(self) -> str:
        return TRIGGERS.get(self.run.trigger, "")

    @property
    def done(self) -> list[str]:
        ended = (step for step in self.steps if step.chip.look == "completed")
        return list(dict.fromkeys(step.step for step in ended))

    @property
    def retried(self) -> bool:
        """Tell whether a retry is under way or did what this run could not."""
        hopeful = {*Run.ACTIVE, Run.State.COMPLETED}
        return any(retry.chip.look in hopeful for retry in self.retries)

    @property
    def files(self) -> list[dict[str, Any]]:
        """Return the files that steps left, their sizes in words."""
        return [{**file, "words": size(file["size"])} for file in self.doc["artifacts"]]

    @property
    def last(self) -> int:
        entries = self.doc["thread"]["entries"]
        return entries[-1]["number"] if entries else 0

    @property
    def seen(self) -> str:
        return digest(self.marks.all, self.last)

    @property
    def marks(self) -> Marks:
        run = self.run
        return Marks(
            head=digest(
                self.chip,
                self.why,
                self.paused,
                run.failure,
                self.doc["attempts"],
                self.used,
                self.retries,
                self.children,
            ),
            steps=digest(self.steps),
            ask=self.ask.seen if self.ask else "",
            live=digest(self.live),
            moves=digest(
                *(self.active, self.stopping, self.may_act, self.retried),
                *(self.paused, self.hand),
            ),
            reply=digest(self.may_speak, self.active),
            files=digest(self.files),
        )


def run(user: Any, run: Run, *, whole: bool = False) -> Shown:
    """Return the run as this person sees it."""
    doc = documents.run(run, entries=None if whole else ENTRIES)
    member = thread_access.membership(user, run.house_id)
    ask = open_ask(user, UUID(doc["thread"]["id"]), member)
    kinds = {step["instruction"]: step["kind"] for step in doc["steps"]}
    bot = RunThread.objects.values_list("worker_bot__name", flat=True).get(run=run)
    return Shown(
        run=run,
        doc=doc,
        chip=chip_of(doc, ask, bot),
        why=sentence(run, doc),
        steps=list(steps(doc)),
        lines=linked(run, shown.lines(doc["thread"]["entries"], kinds=kinds, bot=bot)),
        ask=ask,
        live=live(doc["steps"], bot=bot),
        retries=retries(run, doc),
        children=children(run, doc),
        hand=hands_on(run),
        may_act=RANK[member.role] >= RANK["member"],
        may_edit=RANK[member.role] >= RANK["author"],
        role=member.role,
    )


def linked(run: Run, lines: list[shown.Line]) -> list[shown.Line]:
    """Let the entry that names the earlier run of a retry lead to it."""
    if run.retry_of_id is None or not lines or lines[0].number != 1:
        return lines
    before, named, after = lines[0].words.partition(str(run.retry_of_id))
    if not named:
        return lines
    words = format_html(
        '{}<a href="{}" title="{}">{}</a>{}',
        before,
        reverse("workflows:run", args=[run.retry_of_id]),
        named,
        documents.short(run.retry_of_id),
        after,
    )
    return [replace(lines[0], html=words), *lines[1:]]


def open_ask(user: Any, thread: UUID, member: Member) -> shown.Ask | None:
    rows = Gate.objects.filter(thread=thread, state=Gate.State.OPEN)
    gate = rows.prefetch_related("answers").first()
    return shown.ask(gate, member, user=user) if gate else None


def sentence(run: Run, doc: Mapping[str, Any]) -> str:
    if run.state == Run.State.CANCELLED:
        words: str = documents.run_line(run)["reason"]
        return f"{words[:1].upper()}{words[1:]}."
    waits = doc["waiting_for"]
    return waits["words"] if waits else why.in_words(run)


def chip_of(doc: Mapping[str, Any], ask: shown.Ask | None, bot: str) -> Chip:
    waits = (doc["waiting_for"] or {}).get("kind", "")
    if doc["state"] == "pending" and doc["paused"]:
        return Chip("pending", "paused")
    if doc["state"] != "waiting":
        return Chip(doc["state"], STATES.get(doc["state"], doc["state"]))
    if ask is not None:
        return Chip(
            "asking", "waiting for you" if ask.yours else f"waiting for {ask.who}"
        )
    others = {"event": "an event", "run": "another run"}
    return Chip("waiting", f"waiting for {others.get(waits, bot)}")


def steps(doc: Mapping[str, Any]) -> Iterator[Step]:
    """Yield the steps, each with the entry that its instruction is."""
    told = [e for e in doc["thread"]["entries"] if e["kind"] == "instruction"]
    for step in doc["steps"]:
        left_out = step["iterations"] - step["iteration"] - SHOWN + 1
        entry = next((e for e in told if e["body"] == step["instruction"]), None)
        if entry is not None:
            told = told[told.index(entry) + 1 :]
        tries = f"{step['attempts']} attempts" if step["attempts"] > 1 else ""
        if left_out > 0:
            continue
        asking = step["kind"] == "human_gate" and step["state"] == "waiting"
        look = "asking" if asking else step["state"]
        yield Step(
            name=step["name"] + iteration(step),
            chip=Chip(look, STATES.get(step["state"], step["state"])),
            kind=KINDS.get(step["kind"], step["kind"]),
            again=tries,
            took=took(step["started_at"], step["finished_at"]),
            entry=entry["number"] if entry else 0,
            hand=hand_words(step),
            earlier=max(step["iteration"] - 1, 0) if left_out == 0 else 0,
            step=step["name"],
        )


def iteration(step: Mapping[str, Any]) -> str:
    """Say which iteration this is, of how many."""
    number, times = step["iteration"], step["times"]
    if times:
        return f" ({number} of {times})" if step["iterations"] else ""
    return f" ({number})" if step["iterations"] > 1 else ""


def hand_words(step: Mapping[str, Any]) -> str:
    hand = step["by_hand"]
    return f"by {hand['by']}: {hand['reason']}" if hand else ""


def kept_by_retry(page: Shown) -> list[str]:
    """Return the names of the steps that a retry would not do again."""
    names = [step["name"] for step in selectors.plan_steps(page.run.plan_id)]
    failure = page.run.failure
    if not failure or failure["step"] not in names:
        return []
    return names[: names.index(failure["step"])]
