"""The thread row as the lock of both planes, and the only writer of entries.

Lock order everywhere: event → thread rows by id → turn or gate → run → run thread →
step. A transaction that touches more than one of them takes its thread here first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction

from threads import db, points
from threads.exceptions import NotFound
from threads.models import Bot, Entry, House, Thread
from threads.text import clean


@dataclass(frozen=True)
class Author:
    kind: str
    name: str
    bot: int | None = None
    person: int | None = None


SYSTEM = Author("system", "System")


def bot_author(bot: Bot) -> Author:
    return Author("bot", bot.name or bot.handle, bot=bot.pk)


def person_author(person: Any) -> Author:
    name = person.get_full_name() or person.get_username()
    return Author("person", name, person=person.pk)


WRITTEN = (
    *("number", "author_kind", "author_name", "bot_id", "person_id"),
    *("kind", "body", "data"),
)
# What was appended and the last number, in one statement.
FLUSH = """
WITH entry AS (
    INSERT INTO threads_entry (thread_id, number, author_kind, author_name, bot_id,
                               person_id, kind, body, data)
    SELECT %(id)s, e.number, e.author_kind, e.author_name, e.bot_id, e.person_id,
           e.kind, e.body, e.data
      FROM jsonb_to_recordset(%(entries)s::jsonb) AS e(
           number int, author_kind text, author_name text, bot_id bigint,
           person_id bigint, kind text, body text, data jsonb)
)
UPDATE threads_thread SET last_number = %(last)s WHERE id = %(id)s RETURNING id
"""


@dataclass
class LockedThread:
    """A thread nobody else writes to until the transaction ends."""

    id: UUID
    house: int
    last_number: int
    entries: list[Entry] = field(default_factory=list)

    def append(
        self,
        body: str,
        *,
        author: Author = SYSTEM,
        kind: str = Entry.Kind.NOTE,
        data: dict[str, Any] | None = None,
    ) -> int:
        """Add an entry and return its number."""
        self.last_number += 1
        self.entries.append(
            Entry(
                thread_id=self.id,
                number=self.last_number,
                author_kind=author.kind,
                author_name=author.name,
                bot_id=author.bot,
                person_id=author.person,
                kind=kind,
                body=clean(body),
                data=data,
            )
        )
        return self.last_number

    def flush(self) -> None:
        """Write what was appended; numbers have no gap because the row is locked."""
        if not self.entries:
            return
        kept, self.entries = self.entries, []
        rows = [{name: getattr(entry, name) for name in WRITTEN} for entry in kept]
        facts = {"id": self.id, "last": self.last_number}
        db.fetch(FLUSH, {**facts, "entries": json.dumps(rows, ensure_ascii=False)})


@contextmanager
def locked(thread_id: UUID) -> Iterator[LockedThread]:
    """Lock a thread for a transaction and write its new entries at the end.

    Raises NotFound where there is no such thread.
    """
    with transaction.atomic():
        # NO KEY: an entry's foreign key may still look at the row meanwhile.
        row = db.fetch_one(
            "SELECT house_id, last_number FROM threads_thread WHERE id = %(id)s"
            " FOR NO KEY UPDATE",
            {"id": thread_id},
        )
        if row is None:
            raise NotFound
        thread = LockedThread(id=thread_id, house=row[0], last_number=row[1])
        yield thread
        thread.flush()
        points.written("thread")


def open_thread(
    house: House,
    *,
    title: str,
    kind: str = Thread.Kind.ROOM,
    bot: Bot | None = None,
    first: str = "",
) -> Thread:
    """Open a thread; a run's thread is bound to one bot that always replies.

    `first` is what System says in it, before anybody else can: it needs no lock.
    """
    thread = Thread.objects.create(
        house=house,
        title=title[:200],
        kind=kind,
        bot=bot,
        trigger_mode="always" if kind == Thread.Kind.RUN else "mention",
        last_number=1 if first else 0,
    )
    if first:
        opened = LockedThread(id=thread.pk, house=house.pk, last_number=0)
        opened.append(first)
        Entry.objects.bulk_create(opened.entries)
    return thread


def open_room_once(house: House, code: UUID, *, title: str, first: str) -> bool:
    """Open the room of this id with System's first words; False where it stands."""
    room = Thread(id=code, house=house, title=title[:200], last_number=1)
    Thread.objects.bulk_create([room], ignore_conflicts=True)
    if Entry.objects.filter(thread_id=code).exists():
        return False
    opened = LockedThread(id=code, house=house.pk, last_number=0)
    opened.append(first)
    Entry.objects.bulk_create(opened.entries)
    return True


def append_entry(
    thread_id: UUID,
    body: str,
    *,
    author: Author = SYSTEM,
    kind: str = Entry.Kind.NOTE,
    data: dict[str, Any] | None = None,
) -> int:
    """Append one entry and return its number."""
    with locked(thread_id) as thread:
        return thread.append(body, author=author, kind=kind, data=data)
