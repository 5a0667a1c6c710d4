"""A `query` step: another database is read by a process of its own, under the claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from threads import markdown, text
from threads.artifacts import Haul
from threads.runtime import gathering
from threads.runtime.queries import masks, process
from threads.runtime.queries.files import FILE
from threads.runtime.queries.order import Order, QueryFailed, Rows, opened
from threads.runtime.sandbox import programs
from workflows import phrases, plan, sending, templating
from workflows.engine import lengthy, rendering
from workflows.engine.apart import START_SECONDS, Apart
from workflows.engine.listed import CallFailed
from workflows.journal import Ended, Held, Line

SQL_SHOWN, VALUE_SHOWN = 20_000, 200  # characters
ROWS_SHOWN, COLUMNS_SHOWN, CELL_SHOWN = 10, 8, 60


@dataclass(frozen=True)
class Asked:
    """One execution of a step: what is asked, and how the thread says it."""

    held: Held
    step: plan.Query
    order: Order
    words: str

    @property
    def key(self) -> str:
        held = self.held
        return sending.step_key(held.id, held.position, held.iteration)

    def program(self, folder: Path, fault: int) -> programs.Program:
        held = self.held
        return process.program(
            self.order,
            folder,
            key=f"{self.key}:{held.step_tries}:{fault}",
            attempt=held.attempts,
            wait=START_SECONDS,
        )

    def apart(self) -> Apart:
        return Apart(
            self.held,
            self.key,
            timeout=self.order.seconds + process.LEAVE_SECONDS,
            again=self.step.if_interrupted == "again",
            program=self.program,
        )


def begin(held: Held, step: plan.Query, see: templating.Scope) -> Ended | None:
    """Read the database under the claim; None where the run left this worker's hands."""
    params = {
        name: templating.render_value(value, see.resolve)
        for name, value in step.params.items()
    }
    if held.pool != lengthy.TURNS:
        lengthy.give(held, lengthy.TURNS)
        return None
    try:
        order = process.order(
            held.house,
            database=step.database,
            sql=step.sql,
            params=params,
            seconds=step.timeout,
            file=settings.QUERY_FILE_LIMIT,
        )
    except QueryFailed as error:
        words = in_words(step, params, hidden=())
        begun = [] if held.step_state else [rendering.instructed(step.name, words)]
        return failure(step, words, failed(step, error), begun)
    hidden = masks.secrets(order.url)
    asked = Asked(held, step, order, in_words(step, params, hidden=hidden))
    return carry_out(asked)


def carry_out(asked: Asked) -> Ended | None:
    apart, step, words = asked.apart(), asked.step, asked.words

    def end() -> Ended:
        try:
            answer, folder = apart.call()
            rows = opened(answer)
            return outcome(asked, rows, sheet(asked, rows, folder / FILE))
        except QueryFailed as error:
            return failure(step, words, failed(step, error))
        except CallFailed as error:
            return failure(step, words, error)

    return lengthy.carry_out(
        asked.held,
        step,
        words,
        apart,
        end=end,
        cut=lambda cut: failure(step, words, cut),
    )


def failed(step: plan.Query, error: QueryFailed) -> CallFailed:
    """Return the failure, with advice where the text holds a placeholder."""
    reason = str(error)
    if "{{" in step.sql:
        reason = f"{reason} {phrases.NOT_IN_SQL}"
    return CallFailed(reason, final=error.final)


def failure(
    step: plan.Query, words: str, error: CallFailed, begun: list[Line] | None = None
) -> Ended:
    return Ended(
        step.name,
        step.kind,
        "failed",
        instruction=words,
        error=str(error),
        final=error.final,
        lines=[*(begun or ()), Line(str(error))],
    )


def outcome(asked: Asked, rows: Rows, haul: Haul) -> Ended:
    lines = [Line(account(rows))]
    if words := haul.words():
        lines.append(Line(words))
    return Ended(
        asked.step.name,
        asked.step.kind,
        "completed",
        instruction=asked.words,
        result={"rows": list(rows.rows), "truncated": rows.left_out},
        lines=lines,
        haul=haul,
    )


def sheet(asked: Asked, rows: Rows, path: Path) -> Haul:
    """Keep the rows as a CSV file, as far as it goes."""
    held, step = asked.held, asked.step
    haul = Haul(held.house, held.id, asked.key, step.name)
    if not rows.file_rows:
        return haul
    read = len(rows.rows) + rows.left_out
    part = "" if rows.whole and rows.file_rows == read else phrases.CSV_PART
    name = f"{step.name}{part}.csv"
    return gathering.single(haul, path, name=name)


def in_words(
    step: plan.Query, params: Mapping[str, Any], *, hidden: tuple[str, ...]
) -> str:
    """Say what is asked: the sql as it is written, and the values beside it."""
    sql = step.sql.strip()
    if len(sql) > SQL_SHOWN:
        sql = phrases.SHORTENED.format(begin=sql[:SQL_SHOWN], count=f"{len(sql):,}")
    lines = [phrases.QUERYING.format(database=step.database)]
    lines.append(markdown.fenced(text.clean(sql), "sql"))
    values = [
        f"{name} = {markdown.cell(short(masked(value, hidden), VALUE_SHOWN))}"
        for name, value in params.items()
    ]
    if values:
        lines.append(phrases.QUERY_WITH.format(values=", ".join(values)))
    return "\n\n".join(lines)


def masked(value: Any, hidden: tuple[str, ...]) -> str:
    return masks.masked(templating.as_text(value), hidden)


def account(rows: Rows) -> str:
    """Say how much came, with the first of it as a table."""
    read = len(rows.rows) + rows.left_out
    count = phrases.ROWS_READ if rows.whole else phrases.ROWS_AT_LEAST
    one = "row" if read == 1 else "rows"
    said = count.format(count=f"{read:,}", rows=one, seconds=f"{rows.seconds:.1f}")
    if rows.left_out:
        said = f"{said} {phrases.ROWS_KEPT.format(count=f'{len(rows.rows):,}')}"
    if rows.cut:
        said = f"{said} {phrases.CELLS_CUT.format(count=f'{rows.cut:,}')}"
    return f"{said}\n\n{first_rows(rows)}" if rows.rows else said


def first_rows(rows: Rows) -> str:
    columns = rows.columns[:COLUMNS_SHOWN]
    shown = [
        [short(templating.as_text(row[name]), CELL_SHOWN) for name in columns]
        for row in rows.rows[:ROWS_SHOWN]
    ]
    words = markdown.table([short(name, CELL_SHOWN) for name in columns], shown)
    left = len(rows.rows) + rows.left_out - len(shown)
    more = [phrases.MORE_ROWS.format(count=f"{left:,}")] if left else []
    if wide := len(rows.columns) - len(columns):
        more.append(phrases.MORE_COLUMNS.format(count=wide))
    return "\n\n".join([words, " ".join(more)]) if more else words


def short(words: str, limit: int) -> str:
    return text.one_line(words, limit)
