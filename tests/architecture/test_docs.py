"""What README and docs/operate.md tell a person to type or to set exists."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from django.core.management import get_commands, load_command_class

from project.embedded import roles

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/operate.md"]
CODE = re.compile(r"```\w*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
COMMAND = re.compile(r"manage\.py\s+(\S[^#|\n]*)")
SHORT = re.compile(r"^wf\s+\S[^#|\n]*")
SETTING = re.compile(r"(?!INFO$)[A-Z][A-Z0-9_]{3,}")  # INFO is a value
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def pieces(page: str) -> list[str]:
    """Return each code span of a page, and each line of its blocks."""
    return [
        line
        for block, span in CODE.findall(text(page))
        for line in (block.splitlines() if block else [span])
    ]


def commands(page: str) -> list[str]:
    """Return what a page says after `manage.py`, and `wf …` where it stands alone."""
    found = [words for piece in pieces(page) for words in COMMAND.findall(piece)]
    found += [words for piece in pieces(page) for words in SHORT.findall(piece)]
    return sorted({words.strip() for words in found} - {"…", "wf …"})


TYPED = [(page, words) for page in PAGES for words in commands(page)]


def under(parser: argparse.ArgumentParser, word: str) -> argparse.ArgumentParser | None:
    """Return the parser of a subcommand; None where the parser has none at all."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            assert word in action.choices, f"there is no {word}: {[*action.choices]}"
            found: argparse.ArgumentParser = action.choices[word]
            return found
    return None


def misses(words: str) -> list[str]:
    """Return the options that the named command does not know."""
    name, *rest = shlex.split(words)
    assert name in get_commands(), f"there is no manage.py {name}"
    command: Any = load_command_class(get_commands()[name], name)
    parser = command.create_parser("manage.py", name)
    while rest and not rest[0].startswith("-"):
        deeper = under(parser, rest[0])
        if deeper is None:
            break
        parser, rest = deeper, rest[1:]
    options = [word.partition("=")[0] for word in rest if word.startswith("--")]
    return [word for word in options if word not in parser._option_string_actions]


@pytest.mark.parametrize(("page", "words"), TYPED)
def test_a_command_that_a_page_names_exists_with_its_options(page, words):
    assert misses(words) == []


def test_a_command_or_option_that_is_not_there_is_noticed():
    assert misses("wf spawn x --fellow") == ["--fellow"]
    for words in ("wf dance x", "wf member kick", "upp"):
        with pytest.raises(AssertionError, match="there is no"):
            misses(words)


def read_from_environment() -> set[str]:
    """Return the names that settings.py, local.py and the crash kit read."""
    # Read where there are no settings yet.
    names = {"THREADWORK_DATA", "THREADWORK_DIE"}
    for node in ast.walk(ast.parse(text("project/settings.py"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("env."):
            first = node.args[0]
            if isinstance(first, ast.Constant):
                names.add(str(first.value))
    return names


def settings_named(page: str) -> set[str]:
    """Return spans that are a name in capitals, alone or with its value."""
    spans = [span for _, span in CODE.findall(text(page))]
    return {name for span in spans if SETTING.fullmatch(name := span.partition("=")[0])}


@pytest.mark.parametrize("page", PAGES)
def test_a_setting_that_a_page_names_is_read(page):
    assert settings_named(page) - read_from_environment() == set()
    assert {"DATABASE_URL", "BROKER_URL", "WORKSPACES"} <= settings_named(page)


def test_every_role_is_started_as_up_starts_it():
    lines = text("docs/operate.md").splitlines()
    for name in roles.WORKERS:
        started = roles.commands(0)[name]
        words = started[started.index("celery") :]
        assert " ".join(words) in lines


@pytest.mark.parametrize("page", [*PAGES, "docs/failures.md"])
def test_a_link_of_a_page_leads_somewhere(page):
    for target in LINK.findall(text(page)):
        assert ((ROOT / page).parent / target).exists(), target


def test_the_readme_leads_to_both_pages():
    assert {"docs/operate.md", "docs/failures.md"} <= set(LINK.findall(text(PAGES[0])))
