"""Markdown of people and bots as HTML in which nothing runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt

LONGEST = 40_000  # characters; what is longer shows as it was typed
LINK = {"rel": "noopener noreferrer nofollow", "target": "_blank"}


class Harmless(MarkdownIt):
    """CommonMark with tables, without raw HTML, images, or links but http and https."""

    def validateLink(self, url: str) -> bool:  # noqa: N802  the parser's own name
        return url.strip().lower().startswith(("http://", "https://"))


def link_open(renderer: Any, tokens: Any, number: int, options: Any, env: Any) -> str:
    for name, value in LINK.items():
        tokens[number].attrSet(name, value)
    html: str = renderer.renderToken(tokens, number, options, env)
    return html


def cell_open(renderer: Any, tokens: Any, number: int, options: Any, env: Any) -> str:
    # A column's alignment would be an inline style, which the page's policy refuses.
    tokens[number].attrs.pop("style", None)
    html: str = renderer.renderToken(tokens, number, options, env)
    return html


CELL = re.compile(r"[\\`*\[\]<>|~&]|(?<![^\W_])_|_(?![^\W_])")


def fenced(words: str, language: str = "") -> str:
    """Return words as a block that nothing in them can end."""
    longest = max((len(run) for run in re.findall(r"`+", words)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{words.rstrip()}\n{fence}"


def cell(words: str) -> str:
    """Return words as a cell of a table that shows them as they are."""
    return CELL.sub(lambda found: f"\\{found[0]}", " ".join(words.split()))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        f"| {' | '.join(line if line is lines[1] else map(cell, line))} |"
        for line in lines
    )


parser = Harmless("commonmark", {"html": False, "breaks": True})
parser.enable(["table", "strikethrough"]).disable(["image"])
parser.add_render_rule("link_open", link_open)
parser.add_render_rule("th_open", cell_open)
parser.add_render_rule("td_open", cell_open)


def as_html(words: str) -> str:
    """Return the words as HTML that is safe to show as it stands."""
    if len(words) > LONGEST:
        return f"<pre>{escape(words)}</pre>"
    html: str = parser.render(words)
    return html


def as_inline(words: str) -> str:
    """Return one sentence as HTML, for its `code` and its emphasis."""
    html: str = parser.renderInline(words)
    return html
