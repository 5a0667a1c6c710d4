from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice, pairwise

import pytest
from celery.schedules import crontab
from hypothesis import given
from hypothesis import strategies as st

from workflows.schedules import (
    BadSchedule,
    celery_fields,
    count_slots,
    due_slot,
    in_words,
    missed_slots,
    next_after,
    parse,
)

EVE = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
END = datetime(2027, 12, 31, 23, 59, 59, tzinfo=UTC)

SHEET = [
    ("0 9 * * 1-5", 261, ["1-1 9:00", "1-4 9:00", "1-5 9:00", "1-6 9:00"]),
    ("0 0 * * 7", 52, ["1-3 0:00", "1-10 0:00", "1-17 0:00"]),
    ("0 0 * * 0", 52, ["1-3 0:00", "1-10 0:00", "1-17 0:00"]),
    ("0 0 * * 0,7", 52, ["1-3 0:00", "1-10 0:00", "1-17 0:00"]),
    ("30 8 * * 1,2,3,4,5,6,7", 365, ["1-1 8:30", "1-2 8:30"]),
    ("0 0 * * 5-7", 157, ["1-1 0:00", "1-2 0:00", "1-3 0:00", "1-8 0:00"]),
    ("0 0 * * MON-SUN", 365, ["1-1 0:00"]),
    ("0 0 * * mon-sun", 365, ["1-1 0:00"]),
    ("0 0 * * FRI-MON", 209, ["1-1 0:00", "1-2 0:00", "1-3 0:00", "1-4 0:00", "1-8 0:00"]),
    ("0 0 13 * 5", 64, ["1-1 0:00", "1-8 0:00", "1-13 0:00", "1-15 0:00"]),
    ("0 22 1-7 * 6", 124, ["1-1 22:00", "1-2 22:00", "1-3 22:00"]),
    ("0 0 */2 * 1", 27, ["1-11 0:00", "1-25 0:00", "2-1 0:00", "2-15 0:00"]),
    ("0 0 31 * *", 7, ["1-31 0:00", "3-31 0:00"]),
    ("0 0 29 2 *", 0, []),
    ("*/35 * * * *", 17520, ["1-1 0:00", "1-1 0:35", "1-1 1:00"]),
    ("*/7 * * * *", 78840, ["1-1 0:00", "1-1 0:07"]),
    ("0 */5 * * *", 1825, ["1-1 0:00", "1-1 5:00", "1-1 10:00", "1-1 15:00", "1-1 20:00"]),
    ("5/15 * * * *", 35040, ["1-1 0:05", "1-1 0:20", "1-1 0:35", "1-1 0:50"]),
    ("5-5/15 * * * *", 8760, ["1-1 0:05", "1-1 1:05"]),
    ("10-50/20 8-18/4 * * 1-5", 2349, ["1-1 8:10", "1-1 8:30", "1-1 8:50", "1-1 12:10"]),
    ("0 9 1 JAN,JUL *", 2, ["1-1 9:00", "7-1 9:00"]),
    ("59 23 31 12 *", 1, ["12-31 23:59"]),
    ("0 0 1 */3 *", 4, ["1-1 0:00", "4-1 0:00", "7-1 0:00", "10-1 0:00"]),
    ("@daily", 365, ["1-1 0:00"]),
    ("@midnight", 365, ["1-1 0:00"]),
    ("@hourly", 8760, ["1-1 0:00", "1-1 1:00"]),
    ("@weekly", 52, ["1-3 0:00"]),
    ("@monthly", 12, ["1-1 0:00", "2-1 0:00"]),
    ("@yearly", 1, ["1-1 0:00"]),
    ("@Annually", 1, ["1-1 0:00"]),
    ("0 0 31 2 1", 4, ["2-1 0:00", "2-8 0:00", "2-15 0:00", "2-22 0:00"]),
    ("\t0  9\t* * *  ", 365, ["1-1 9:00"]),
    ("0 0 * * */7", 52, ["1-3 0:00"]),
    ("0 0 * * SUN-TUE", 156, ["1-3 0:00", "1-4 0:00", "1-5 0:00"]),
    ("0 0 *,13 * 5", 53, ["1-1 0:00", "1-8 0:00"]),
]  # fmt: skip


def moment(words: str) -> datetime:
    return datetime.strptime(f"2027-{words} +0000", "%Y-%m-%d %H:%M %z")


@pytest.mark.parametrize(("line", "count", "first"), SHEET)
def test_a_line_fires_in_2027_as_it_always_did(line, count, first):
    schedule = parse(line)

    slots = missed_slots(schedule, last=EVE, now=END, limit=100_000)

    assert len(slots) == count
    assert slots[: len(first)] == [moment(words) for words in first]
    assert count_slots(schedule, last=EVE, now=END) == count


@pytest.mark.parametrize(("line", "count", "first"), SHEET)
def test_beat_ticks_at_every_slot_of_a_line(line, count, first):
    schedule = parse(line)
    row = crontab(**celery_fields(line))

    assert row.minute == schedule.minutes
    assert row.hour == schedule.hours
    assert row.month_of_year == schedule.months
    days = (datetime(2027, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in range(365))
    for day in filter(schedule.falls_on, days):
        assert day.day in row.day_of_month
        assert day.isoweekday() % 7 in row.day_of_week


def test_a_beat_row_fits_its_columns():
    full = "0-58 0-22 1-30 1-11 0-5"
    fields = celery_fields(full)

    assert len(fields["minute"]) <= 240
    assert len(fields["hour"]) <= 96
    assert fields["day_of_month"] == fields["day_of_week"] == "*"
    assert len(celery_fields("0 0 */2 1-11 *")["month_of_year"]) <= 64
    assert len(celery_fields("0 0 1-30 * *")["day_of_month"]) <= 124


REFUSED = [
    ("0 0 30 2 *", "day of month", "30", "no such date"),
    ("0 0 31 2 *", "day of month", "31", "no such date"),
    ("0 0 31 4,6,9,11 *", "day of month", "31", "no such date"),
    ("0 0 30,31 2 */2", "day of month", "30,31", "no such date"),
    ("@reboot", "schedule", "@reboot", "no moment of starting"),
    ("@every 5m", "schedule", "@every 5m", "@daily"),
    ("@fortnightly", "schedule", "@fortnightly", "@daily"),
    ("@daily 5", "schedule", "@daily 5", "@daily"),
    ("0 0 L * *", "day of month", "L", "Quartz"),
    ("0 0 LW * *", "day of month", "LW", "Quartz"),
    ("0 0 L-3 * *", "day of month", "L-3", "Quartz"),
    ("0 9 15W * *", "day of month", "15W", "Quartz"),
    ("0 9 * * MON#1", "day of week", "MON#1", "Quartz"),
    ("0 9 * * 5L", "day of week", "5L", "Quartz"),
    ("0 9 * * FRIL", "day of week", "FRIL", "Quartz"),
    ("H 3 * * *", "minute", "H", "Jenkins"),
    ("H/15 3 * * *", "minute", "H/15", "Jenkins"),
    ("H(0-29)/10 3 * * *", "minute", "H(0-29)/10", "Jenkins"),
    ("0~30 3 * * *", "minute", "0~30", "OpenBSD"),
    ("0 9 ? * MON", "day of month", "?", "Quartz"),
    ("0 0 9 * * *", "schedule", "0 0 9 * * *", "6 fields"),
    ("0 0 9 ? * MON *", "schedule", "0 0 9 ? * MON *", "7 fields"),
    ("CRON_TZ=Europe/Paris 0 3 * * *", "schedule", "CRON_TZ=Europe/Paris", "timezone"),
    ("TZ=Asia/Tokyo 0 3 * * *", "schedule", "TZ=Asia/Tokyo", "timezone"),
    ("60 * * * *", "minute", "60", "from 0 to 59"),
    ("* 24 * * *", "hour", "24", "from 0 to 23"),
    ("* * 0 * *", "day of month", "0", "from 1 to 31"),
    ("* * 32 * *", "day of month", "32", "from 1 to 31"),
    ("* * * 13 *", "month", "13", "from 1 to 12"),
    ("* * * 0 *", "month", "0", "from 1 to 12"),
    ("* * * * 8", "day of week", "8", "from 0 to 7"),
    ("*/0 * * * *", "minute", "*/0", "step must be from 1"),
    ("*/90 * * * *", "minute", "*/90", "step must be from 1 to 60"),
    ("* */25 * * *", "hour", "*/25", "step must be from 1 to 24"),
    ("1-0 * * * *", "minute", "1-0", "backwards"),
    ("* * * DEC-JAN *", "month", "DEC-JAN", "backwards"),
    ("-1 * * * *", "minute", "-1", "cannot be read"),
    ("1- * * * *", "minute", "1-", "cannot be read"),
    ("1-2-3 * * * *", "minute", "1-2-3", "cannot be read"),
    ("*/2/3 * * * *", "minute", "*/2/3", "cannot be read"),
    ("*-5 * * * *", "minute", "*-5", "cannot be read"),
    ("1,,2 * * * *", "minute", "", "empty"),
    ("1, * * * *", "minute", "", "empty"),
    ("1.5 * * * *", "minute", "1.5", "cannot be read"),
    ("00000000000000000005 * * * *", "minute", "00000000000000000005", "is no minute"),
    ("* MON * * *", "hour", "MON", "is no hour"),
    ("0 9 * * MONDAY", "day of week", "MONDAY", "is no day of week"),
    ("0 9 * * JAN", "day of week", "JAN", "is no day of week"),
    ("* * * *", "schedule", "* * * *", "five fields are needed, this has 4"),
    ("hello", "schedule", "hello", "five fields are needed, this has 1"),
    ("* * * * * * * *", "schedule", "* * * * * * * *", "this has 8"),
    ("", "schedule", "", "empty"),
    (" \t", "schedule", "", "empty"),
    ("," * 4096, "schedule", "", "longer than 1000"),
    (",".join("0" * 400) + " * * * *" + "," * 300, "schedule", "", "longer than 1000"),
    ("٣ * * * *", "schedule", "٣", "plain letters"),
    ("0 9 * * *\n", "schedule", "\\n", "plain letters"),
    ("0 9 * *\x00 *", "schedule", "\\x00", "plain letters"),
    ("0\u00a09 * * *", "schedule", "\\xa0", "plain letters"),
]


@pytest.mark.parametrize(("line", "field", "token", "reason"), REFUSED)
def test_a_line_is_refused_by_field_and_token(line, field, token, reason):
    with pytest.raises(BadSchedule) as refusal:
        parse(line)

    assert (refusal.value.field, refusal.value.token) == (field, token)
    assert reason in refusal.value.reason
    assert str(refusal.value).startswith(f"{field}: ")


def test_the_29th_of_february_waits_for_a_leap_year():
    slot = next_after(parse("0 0 29 2 *"), EVE)

    assert slot == datetime(2028, 2, 29, tzinfo=UTC)


def test_the_29th_of_february_waits_across_a_century_without_one():
    after = datetime(2096, 3, 1, tzinfo=UTC)

    assert next_after(parse("0 0 29 2 *"), after) == datetime(2104, 2, 29, tzinfo=UTC)


def test_the_next_slot_is_later_than_the_moment():
    nine = datetime(2027, 1, 1, 9, tzinfo=UTC)
    schedule = parse("0 9 * * *")

    assert next_after(schedule, nine - timedelta(microseconds=1)) == nine
    assert next_after(schedule, nine) == nine + timedelta(days=1)
    assert next_after(schedule, nine + timedelta(microseconds=1)) == nine + timedelta(
        days=1
    )


def test_a_moment_in_another_zone_is_read_as_the_same_moment():
    noon = datetime(2027, 7, 1, 12, tzinfo=timezone(timedelta(hours=2)))

    slot = next_after(parse("4 16 * * *"), noon)

    assert slot == datetime(2027, 7, 1, 16, 4, tzinfo=UTC)
    assert slot.tzinfo is UTC


def test_the_end_of_the_calendar_is_no_fault():
    assert next_after(parse("0 0 1 1 *"), datetime(9999, 6, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("last", "now", "due"),
    [
        ("1-1 8:00", "1-1 8:59", None),
        ("1-1 8:00", "1-1 9:00", "1-1 9:00"),
        ("1-1 8:00", "1-1 9:01", "1-1 9:00"),
        ("1-1 9:00", "1-1 9:01", None),
        ("1-1 9:00", "1-4 8:59", "1-3 9:00"),
        ("1-4 9:00", "1-1 9:00", None),
    ],
)
def test_the_newest_slot_is_the_one_that_is_due(last, now, due):
    slot = due_slot(parse("0 9 * * *"), last=moment(last), now=moment(now))

    assert slot == (due and moment(due))


def test_a_slot_is_due_within_its_own_second():
    now = moment("1-1 9:00") + timedelta(microseconds=400)

    slot = due_slot(parse("0 9 * * *"), last=moment("1-1 8:00"), now=now)

    assert slot == moment("1-1 9:00")


def test_a_last_slot_of_1970_costs_no_walk_through_the_years():
    last = datetime(1970, 1, 1, tzinfo=UTC)
    schedule = parse("* * * * *")
    now = moment("1-1 9:00")

    assert due_slot(schedule, last=last, now=now) == now
    assert len(missed_slots(schedule, last=last, now=now)) == 101
    assert count_slots(schedule, last=last, now=now) == (now - last) // timedelta(
        minutes=1
    )


def test_missed_slots_come_oldest_first():
    slots = missed_slots(
        parse("0 */6 * * *"), last=moment("1-1 0:00"), now=moment("1-1 18:00")
    )

    assert slots == [moment("1-1 6:00"), moment("1-1 12:00"), moment("1-1 18:00")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0 6 * * *", "At 06:00, every day"),
        ("@daily", "At 00:00, every day"),
        ("0 9 * * 1-5", "At 09:00, Monday through Friday"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("0 0 13 * 5", "At 00:00, on day 13 of the month or on Friday"),
        ("0 22 1-7 2 6", "At 22:00, between day 1 and 7 of the month or on Saturday, only in February"),
        ("0 0 */2 * 1", "At 00:00, every 2 days, only on Monday"),
        ("0 0 29 2 *", "At 00:00, on day 29 of the month, only in February"),
        ("0 0 * * FRI-MON", "At 00:00, only on Sunday, Monday, Friday, and Saturday"),
        ("0 12 1,*/15 * *", "At 12:00, on day 1, 16, and 31 of the month"),
    ],
)  # fmt: skip
def test_a_schedule_is_said_in_words(line, words):
    assert in_words(line) == words


@given(st.text(max_size=40))
def test_any_line_is_a_schedule_or_a_refusal(line):
    try:
        parse(line)
    except BadSchedule:
        return


TOKENS = ["*", "0", "1", "5", "7", "12", "31", "59", "MON", "sun", "FEB", "L", "W", "H"]
SIGNS = ["-", ",", "/", "*/", " ", " ", "?", "#", "@", "\t"]


@given(st.lists(st.sampled_from(TOKENS + SIGNS), max_size=20).map("".join))
def test_any_shape_of_line_is_a_schedule_that_fires_or_a_refusal(line):
    try:
        schedule = parse(line)
    except BadSchedule:
        return

    assert next_after(schedule, EVE) is not None
    assert in_words(line)
    crontab(**celery_fields(line))


def items(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    ranges = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    steps = st.integers(1, most - least).map(lambda step: f"/{step}")
    item = st.one_of(
        number.map(str),
        ranges,
        st.tuples(ranges, steps).map("".join),
        st.just("*"),
        steps.map(lambda step: "*" + step),
    )
    return st.lists(item, min_size=1, max_size=3).map(",".join)


def matches(field: str, value: int, least: int, most: int) -> bool:
    """Read a field as the manual of cron says it, one item after the other."""
    for item in field.split(","):
        span, _, step = item.partition("/")
        low, _, high = span.partition("-")
        first, last = (least, most) if span == "*" else (int(low), int(high or low))
        if value in range(first, last + 1, int(step or 1)):
            return True
    return False


@given(
    items(0, 59), items(0, 23), items(1, 28), items(1, 12), items(0, 7),
    st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001 - made aware below
)  # fmt: skip
def test_slots_are_those_that_the_manual_of_cron_says(
    minute, hour, day, month, weekday, after
):
    schedule = parse(f"{minute} {hour} {day} {month} {weekday}")
    after = after.replace(tzinfo=UTC)

    slot = next_after(schedule, after)

    assert slot is not None
    assert slot > after
    assert due_slot(schedule, last=after, now=slot) == slot
    assert count_slots(schedule, last=after, now=slot) == 1
    by_day = matches(day, slot.day, 1, 31)
    sunday_twice = {slot.isoweekday(), slot.isoweekday() % 7}
    by_weekday = any(matches(weekday, number, 0, 7) for number in sunday_twice)
    starred = day.startswith("*") or weekday.startswith("*")
    assert matches(minute, slot.minute, 0, 59)
    assert matches(hour, slot.hour, 0, 23)
    assert matches(month, slot.month, 1, 12)
    assert (by_day and by_weekday) if starred else (by_day or by_weekday)


@given(items(0, 59), items(0, 23))
def test_no_slot_of_a_day_is_left_out(minute, hour):
    schedule = parse(f"{minute} {hour} * * *")
    expected = [
        EVE + timedelta(seconds=1, hours=h, minutes=m)
        for h in range(24)
        for m in range(60)
        if matches(hour, h, 0, 23) and matches(minute, m, 0, 59)
    ]

    day = missed_slots(schedule, last=EVE, now=EVE + timedelta(days=1), limit=2000)

    assert day == expected
    assert all(one < other for one, other in pairwise(day))


def test_many_slots_are_walked_lazily():
    slots = missed_slots(parse("* * * * *"), last=EVE, now=END, limit=3)

    assert slots == list(
        islice((EVE + timedelta(seconds=1, minutes=n) for n in range(9)), 3)
    )
