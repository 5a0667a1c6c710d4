"""Cron lines: five fields and @names, read by the classic rules or refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

LONGEST = 1000  # characters
DAYS_IN_MONTH = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")  # fmt: skip
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
ITEM = re.compile(r"(\*|(\w+)(?:-(\w+))?)(?:/(\w+))?", re.ASCII)
DIALECTS = (
    (re.compile(r"\?"), "“?” belongs to Quartz; write * here"),
    (re.compile(r"#"), "“#” belongs to Quartz; no weekday of a month can be numbered"),
    (re.compile(r"^H(\W|$)"), "“H” belongs to Jenkins; write a number"),
    (re.compile(r"^(\d+|[A-Z]{3})?L(W|-\d+)?$"), "“L” belongs to Quartz"),
    (re.compile(r"^(\d+|L)?W$"), "“W” belongs to Quartz"),
    (re.compile(r"~"), "“~” belongs to OpenBSD; write a number"),
)


class BadSchedule(ValueError):
    """The schedule cannot be read, or never fires."""

    def __init__(self, field: str, token: str, reason: str) -> None:
        self.field = field
        self.token = token
        self.reason = reason
        super().__init__(
            f"{field}: “{token}”: {reason}" if token else f"{field}: {reason}"
        )


@dataclass(frozen=True)
class Schedule:
    """A schedule that was read. `either`: one of the two day fields is enough."""

    line: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # Sunday is 0
    either: bool

    def falls_on(self, day: date) -> bool:
        """Return whether the schedule fires on the day."""
        if day.month not in self.months:
            return False
        by_day = day.day in self.days
        by_weekday = day.isoweekday() % 7 in self.weekdays
        return by_day or by_weekday if self.either else by_day and by_weekday


@dataclass(frozen=True)
class _Field:
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()

    @property
    def circular(self) -> bool:
        return self.names == WEEKDAYS


FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, MONTHS),
    _Field("day of week", 0, 7, WEEKDAYS),
)


def parse(line: str) -> Schedule:
    """Read a schedule, refusing by field and token what is not of this dialect."""
    words = _words(line)
    values = [_values(field, word) for field, word in zip(FIELDS, words, strict=True)]
    minutes, hours, days, months, weekdays = values
    schedule = Schedule(
        line=" ".join(
            _settled(field, word) for field, word in zip(FIELDS, words, strict=True)
        ),
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        either=not (words[2].startswith("*") or words[4].startswith("*")),
    )
    longest = max(DAYS_IN_MONTH[month] for month in months)
    if not schedule.either and min(days) > longest:
        raise BadSchedule("day of month", words[2], "no such date ever comes")
    return schedule


def _words(line: str) -> list[str]:
    if len(line) > LONGEST:
        raise BadSchedule("schedule", "", f"it is longer than {LONGEST} characters")
    if mark := next((mark for mark in line if not _plain(mark)), ""):
        reason = "only plain letters, digits, signs and blanks on one line"
        raise BadSchedule("schedule", repr(mark)[1:-1], reason)
    words = line.split()
    if not words:
        raise BadSchedule("schedule", "", "it is empty")
    if "TZ=" in words[0]:
        raise BadSchedule(
            "schedule", words[0], "the zone has a key of its own, timezone"
        )
    if words[0].startswith("@"):
        return _named(words)
    if len(words) in (6, 7):
        reason = f"{len(words)} fields are another dialect, with seconds or years"
        raise BadSchedule("schedule", line.strip(), f"{reason}; write five")
    if len(words) != 5:
        reason = f"five fields are needed, this has {len(words)}"
        raise BadSchedule("schedule", line.strip(), reason)
    return [word.upper() for word in words]


def _plain(mark: str) -> bool:
    return mark == "\t" or " " <= mark <= "~"


def _named(words: list[str]) -> list[str]:
    name = words[0].lower()
    if name == "@reboot":
        raise BadSchedule("schedule", words[0], "there is no moment of starting")
    if name not in NAMED or len(words) > 1:
        known = ", ".join(sorted(NAMED))
        raise BadSchedule("schedule", " ".join(words), f"the names are {known}")
    return NAMED[name].split()


def _settled(field: _Field, word: str) -> str:
    """Write a field so that it has one reading: stars as they are, the rest listed."""
    items = word.split(",")
    starred = [item for item in items if item.startswith("*")]
    plain = sorted(
        {n for item in items if item not in starred for n in _item(field, item)}
    )
    if not starred and len(plain) > 2 and plain == [*range(plain[0], plain[-1] + 1)]:
        return f"{plain[0]}-{plain[-1]}"
    # A star at the front is what makes a day field unrestricted, so order is kept.
    listed = ",".join(map(str, plain))
    parts = [*starred, listed] if word.startswith("*") else [listed, *starred]
    return ",".join(part for part in parts if part)


def _values(field: _Field, word: str) -> frozenset[int]:
    return frozenset(n for item in word.split(",") for n in _item(field, item))


def _item(field: _Field, item: str) -> range | list[int]:
    match = ITEM.fullmatch(item)
    for pattern, reason in DIALECTS:
        if pattern.search(item):
            raise BadSchedule(field.name, item, reason)
    if match is None:
        reason = "an item of the list is empty" if not item else "it cannot be read"
        raise BadSchedule(field.name, item, reason)
    base, first, last, step = match.groups()
    stride = _stride(field, item, step)
    if base == "*":
        return range(field.least, field.most + 1)[::stride]
    start = _number(field, item, first)
    if last is None:
        # As Vixie's successors read it: 5/15 is 5-59/15.
        return range(start, field.most + 1)[::stride] if step else [start]
    return _between(field, item, start, _number(field, item, last))[::stride]


def _between(field: _Field, item: str, start: int, end: int) -> list[int]:
    if field.circular and end < start:
        start, end = start % 7, end if start == 7 else end + 7
        return [day % 7 for day in range(start, end + 1)]
    if end < start:
        raise BadSchedule(field.name, item, "the range runs backwards")
    return list(range(start, end + 1))


def _stride(field: _Field, item: str, step: str | None) -> int:
    if step is None:
        return 1
    size = field.most - field.least + (0 if field.circular else 1)
    if not _is_number(step) or not 1 <= int(step) <= size:
        raise BadSchedule(field.name, item, f"a step must be from 1 to {size}")
    return int(step)


def _number(field: _Field, item: str, word: str) -> int:
    if word in field.names:
        return field.names.index(word) + (0 if field.circular else 1)
    if not _is_number(word):
        raise BadSchedule(field.name, item, f"“{word}” is no {field.name}")
    if not field.least <= int(word) <= field.most:
        reason = f"must be from {field.least} to {field.most}"
        raise BadSchedule(field.name, item, reason)
    return int(word)


def _is_number(word: str) -> bool:
    return word.isdigit() and len(word) <= 4
