from __future__ import annotations

import pytest

from threads import markdown
from threads.templatetags.shown import spoken

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "http://a/</a><b>x</b>",
    "javascript:alert(1)",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "<javascript:alert(1)>",
    "[x](//evil.example/)",
    "![x](javascript:alert(1))",
    '"><script>alert(1)</script>',
    "</script>",
    "{{constructor}}",
    "<svg onload=alert(1)>",
]


@pytest.mark.parametrize("words", HOSTILE)
def test_markup_shows_as_it_was_typed(words):
    html = markdown.as_html(words)

    assert "<script" not in html
    assert "<img" not in html
    assert "<svg" not in html
    assert "<b>" not in html
    assert "href" not in html


def test_a_link_leads_only_to_the_web_and_knows_nothing_of_us():
    html = markdown.as_html("[docs](https://example.com/a) <http://example.org>")

    assert html.count('rel="noopener noreferrer nofollow"') == 2
    assert 'href="https://example.com/a"' in html


def test_an_image_from_elsewhere_is_never_fetched():
    assert "<img" not in markdown.as_html("![seen](https://spy.example/pixel.png)")


def test_a_table_carries_no_inline_style():
    html = markdown.as_html("| a |\n| --: |\n| 1 |")

    assert "<td>1</td>" in html
    assert "style" not in html


def test_what_is_too_long_to_read_as_markdown_shows_as_typed():
    html = markdown.as_html("**x** <b>" * 10_000)

    assert html.startswith("<pre>**x** &lt;b&gt;")


def test_what_only_looks_like_a_time_stays_as_it_was_written():
    assert spoken("at 2026-99-99 99:99:99 UTC") == "at 2026-99-99 99:99:99 UTC"
    assert "<time" in spoken("at 2026-12-01 02:03:04 UTC")
