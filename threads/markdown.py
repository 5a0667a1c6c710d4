"""Markdown of people and bots as HTML in which nothing runs. Pure."""

from __future__ import annotations

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
