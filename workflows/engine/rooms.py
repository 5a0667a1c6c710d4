"""An `open_thread` step: a room that outlives the run."""

from __future__ import annotations

from uuid import uuid5

from django.db import transaction

from threads import points
from threads.locking import open_room_once
from threads.models import House
from threads.text import one_line
from workflows import journal, notify, phrases, plan, sending, templating
from workflows.engine import rendering
from workflows.journal import Ended, Held, Line

TITLE = 200  # characters


def open_room(held: Held, step: plan.OpenThread, see: templating.Scope) -> Ended:
    """Open the step's room, once however often the step begins.

    Raises Fenced where the run was taken over meanwhile.
    """
    title = one_line(templating.render_text(step.title, see.resolve), TITLE)
    prompt = templating.render_text(step.prompt, see.resolve)
    key = sending.step_key(held.id, held.position, held.iteration)
    code = uuid5(held.id, key)  # the same for who begins the step again
    if not journal.in_hand(held):
        raise sending.Fenced
    house = House.objects.get(pk=held.house)
    with transaction.atomic():
        origin = phrases.OPENED_BY.format(url=notify.url_of(held.id))
        if open_room_once(house, code, title=title, first=f"{prompt}\n\n{origin}"):
            notify.opened(house, code, title=title, prompt=prompt, who=step.who)
        points.written("room")
    url = notify.url_of_thread(code)
    words = phrases.OPENED.format(title=title, url=url)
    return Ended(
        step.name,
        step.kind,
        "completed",
        instruction=prompt,
        result={"thread": str(code), "title": title, "url": url},
        lines=[rendering.instructed(step.name, prompt), Line(words)],
    )
