"""A workflow file: YAML or JSON in, YAML out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from workflows.refusals import Problem, Refused

LARGEST = 1_000_000  # characters
BREAKS = re.compile("[\x85\u2028\u2029]")  # YAML would read them as ends of lines


class _Unreadable(yaml.MarkedYAMLError):
    """The file uses a part of YAML that workflows do not."""

    def __init__(self, at: Any, problem: str) -> None:
        super().__init__(problem=problem, problem_mark=at.start_mark)


class _Loader(yaml.SafeLoader):
    """YAML without its surprises: no aliases, no tags, no doubled keys."""

    # What stays plain text here is quoted by the dumper, so a file round-trips:
    # yes and no, times such as 12:30, dates, 0123.
    yaml_implicit_resolvers = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _Unreadable(event, "aliases are refused")
        if getattr(event, "tag", None) is not None:
            raise _Unreadable(event, "tags are refused")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        mapping: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _Unreadable(key_node, "a key must be text")
            if key in mapping:
                raise _Unreadable(key_node, f"“{key}” is there twice")
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?", "-+0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first)
    )


class _Dumper(yaml.SafeDumper):
    """YAML as a person would write it."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text.strip() else None
    if BREAKS.search(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def load_file(text: str) -> object:
    """Read a workflow file, refusing what is not one mapping, with line and column."""
    if len(text) > LARGEST:
        raise Refused([Problem("", f"the file is longer than {LARGEST} characters")])
    text = text.removeprefix("\ufeff")
    try:
        data = _json(text) if text.lstrip().startswith("{") else _yaml(text)
    except RecursionError as error:
        raise Refused([Problem("", "the file is nested too deeply")]) from error
    if not isinstance(data, dict):
        raise Refused([Problem("", "the file is not a mapping of keys to values")])
    return data


def dump_file(recipe: Mapping[str, object]) -> str:
    """Write a workflow as YAML, in the order of its keys."""
    return yaml.dump(
        dict(recipe), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=88
    )


def _json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except Refused:
        raise
    except json.JSONDecodeError:
        return _yaml(text)  # YAML may begin with a brace as well
    except ValueError as error:
        # Digits beyond what Python reads as one number.
        raise Refused([Problem("", "a number is too large")]) from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise Refused([Problem("", f"“{twice}” is there twice")])
    return mapping


def _yaml(text: str) -> object:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader of our own
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = error.problem or error.context or "it cannot be read"
        raise Refused([Problem("", f"{reason}{where}")]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        reason = f"a character that cannot be kept at line {line}"
        raise Refused([Problem("", reason)]) from error
    except ValueError as error:
        raise Refused([Problem("", "a number is too large")]) from error
