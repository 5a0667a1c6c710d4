"""When a schedule fires. In UTC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from itertools import islice, takewhile

import cron_descriptor
from cronsim import CronSim

from workflows.cron import BadSchedule, Schedule, parse

__all__ = [
    "BadSchedule",
    "Schedule",
    "celery_fields",
    "count_slots",
    "due_slot",
    "in_words",
    "missed_slots",
    "next_after",
    "parse",
]


def next_after(schedule: Schedule, after: datetime) -> datetime | None:
    """Return the first slot later than a moment."""
    return next(_slots(schedule, after), None)


def due_slot(schedule: Schedule, *, last: datetime, now: datetime) -> datetime | None:
    """Return the newest slot after the last that is due."""
    # Backwards from now: a last slot of years ago costs no more than one of today.
    start = _utc(now).replace(microsecond=0) + timedelta(seconds=1)
    try:
        slot = next(CronSim(schedule.line, start, reverse=True), None)
    except OverflowError:
        return None
    return slot if slot is not None and slot > _utc(last) else None


def missed_slots(
    schedule: Schedule, *, last: datetime, now: datetime, limit: int = 101
) -> list[datetime]:
    """Return the slots after the last that are due, oldest first, up to a limit."""
    due = takewhile(lambda slot: slot <= now, _slots(schedule, last))
    return list(islice(due, limit))


def count_slots(schedule: Schedule, *, last: datetime, now: datetime) -> int:
    """Count the slots after the last that are due, without walking each of them."""
    first, final = _utc(last), _utc(now)
    if final <= first:
        return 0
    days = (final.date() - first.date()).days
    between = (first.date() + timedelta(days=number) for number in range(days))
    whole = sum(schedule.falls_on(day) for day in between)
    full = len(schedule.hours) * len(schedule.minutes)
    return whole * full + _so_far(schedule, final) - _so_far(schedule, first)


def in_words(line: str) -> str:
    """Return a schedule as a sentence."""
    schedule = parse(line)
    minute, hour, day, month, weekday = _spelled(schedule)
    if schedule.either:
        # The describer joins the two day fields with a comma, where here it is an “or”.
        days = _days_in_words(f"{day} * *")
        weekdays = _days_in_words(f"* * {weekday}")
        months = "" if month == "*" else f", only {_days_in_words(f'* {month} *')}"
        return f"{_described(f'{minute} {hour} * * *')}, {days} or {weekdays}{months}"
    words = _described(f"{minute} {hour} {day} {month} {weekday}")
    daily = (day, month, weekday) == ("*", "*", "*") and "*" not in hour
    return f"{words}, every day" if daily else words


def celery_fields(line: str) -> Mapping[str, str]:
    """Return the crontab row that beat ticks by: the same slots, or more of them.

    Celery's crontab wants both day fields to match, so where either is enough the row
    says every day, and the schedule itself decides when the row fires.
    """
    schedule = parse(line)
    days, weekdays = schedule.days, schedule.weekdays
    if schedule.either:
        days, weekdays = frozenset(range(1, 32)), frozenset(range(7))
    return {
        "minute": _listed(schedule.minutes, 60),
        "hour": _listed(schedule.hours, 24),
        "day_of_month": _listed(days, 31),
        "month_of_year": _listed(schedule.months, 12),
        "day_of_week": _listed(weekdays, 7),
    }


def _slots(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    try:
        yield from CronSim(schedule.line, _utc(after))
    except OverflowError:
        return  # past the year 9999


def _spelled(schedule: Schedule) -> list[str]:
    """Return the fields for the describer, which cannot read a star within a list."""
    minute, hour, day, month, weekday = schedule.line.split()
    return [
        _listed(values, size) if "*" in word and "," in word else word
        for word, values, size in (
            (minute, schedule.minutes, 60),
            (hour, schedule.hours, 24),
            (day, schedule.days, 31),
            (month, schedule.months, 12),
            (weekday, schedule.weekdays, 7),
        )
    ]


def _described(line: str) -> str:
    options = cron_descriptor.Options()
    options.use_24hour_time_format = True
    words: str = cron_descriptor.get_description(line, options)
    return words


def _days_in_words(fields: str) -> str:
    words = _described(f"0 0 {fields}").removeprefix("At 00:00, ")
    return words.removeprefix("only ")


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


def _so_far(schedule: Schedule, moment: datetime) -> int:
    """Count the slots of the moment's day up to and with it."""
    if not schedule.falls_on(moment.date()):
        return 0
    return sum(
        time(hour, minute) <= moment.time()
        for hour in schedule.hours
        for minute in schedule.minutes
    )


def _listed(values: frozenset[int], size: int) -> str:
    return "*" if len(values) == size else ",".join(map(str, sorted(values)))
