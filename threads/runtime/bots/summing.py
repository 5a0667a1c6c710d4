"""What the stand-in does with rows: a program adds them up, with the row of each figure."""

from __future__ import annotations

import json
import re
from typing import Any

from threads import phrases
from threads.runtime.bots.protocol import ToolCall

ROWS = re.compile(r"^\[\{.*\}\]$", re.MULTILINE)
LONGEST = 20_000  # characters of rows that a program is handed
PROGRAM = """python3 - <<'SUM'
import json
rows = json.loads({rows})
print(len(rows), "rows")
for name in rows[0]:
    kept = [(row[name], n) for n, row in enumerate(rows, 1)
            if isinstance(row.get(name), (int, float)) and row[name] is not True]
    if kept:
        total = sum(value for value, _ in kept)
        (least, first), (most, last) = min(kept), max(kept)
        print(f"{{name}}: {{total:,.10g}} in all; most {{most:,.10g}} [row {{last}}], "
              f"least {{least:,.10g}} [row {{first}}]")
SUM"""


def rows_in(prompt: str) -> list[dict[str, Any]]:
    """Return the rows that stand in a prompt as one line of JSON, or none."""
    found = ROWS.search(prompt)
    if found is None or len(found[0]) > LONGEST:
        return []
    try:
        rows = json.loads(found[0])
    except (ValueError, RecursionError):
        return []
    return rows if all(isinstance(row, dict) for row in rows) else []


def plan(rows: list[dict[str, Any]]) -> list[ToolCall]:
    """Return the one use of a tool: a program that adds up what it is handed."""
    text = json.dumps(json.dumps(rows)).replace("'", "\\u0027")
    command = PROGRAM.format(rows=text)
    return [ToolCall("run_command", {"command": command}, phrases.ADDING_UP)]


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a numbered table in Markdown, to be cited."""
    names = list(rows[0])
    head = ["row", *names]
    lines = [head, ["---"] * len(head)]
    lines += [
        [str(number), *(cell(row.get(name)) for name in names)]
        for number, row in enumerate(rows[:50], 1)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: Any) -> str:
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return words.replace("|", "\\|").replace("\n", " ")[:80]
