"""Recipes drawn for the state machine: small ones that print well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

SLUGS = ("a", "b", "c")
HOUR = 3600
RETRIES = st.sampled_from(
    [{"limit": 1}, {"limit": 2, "delay": 60}, {"limit": 1, "delay": 60, "backoff": 2}]
)
REPEAT = st.sampled_from(
    [{"times": 2}, {"times": 3, "until": "success"}, {"times": 2, "delay": 60}]
)
COMMON = {
    "when": st.sampled_from(["on_failure", "always"]),
    "on_error": st.just("continue"),
    "retries": RETRIES,
}
WORKED = {**COMMON, "repeat": REPEAT}


def kind(
    name: str, needed: Mapping[str, Any], optional: Mapping[str, Any]
) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"kind": st.just(name), **needed}, optional=optional)


CALL = kind(
    "call",
    {
        "function": st.just("act"),
        "args": st.builds(dict, fails=st.sampled_from([0, 0, 1, 9])),
    },
    WORKED,
)
COMMAND = kind(
    "run_command",
    {"command": st.sampled_from(["true", "echo {{payload.n}}"])},
    {**WORKED, "if_interrupted": st.sampled_from(["fail", "ask"])},
)
PROMPT = kind("dispatch_task", {"prompt": st.just("Look")}, WORKED)
SLEEP = kind("sleep", {"seconds": st.sampled_from([HOUR, 0])}, COMMON)
SILENCE = {
    "deadline": st.just(HOUR),
    "on_deadline": st.sampled_from(["fail", "approve", "reject", "skip"]),
}
ASKING = {"prompt": st.just("Go on?")}
GATE = kind(
    "human_gate", ASKING, {**COMMON, **SILENCE, "approvals": st.just(2)}
) | kind(
    "human_gate",
    ASKING,
    {
        **COMMON,
        **SILENCE,
        "not_starter": st.sampled_from([True]),
        "answer": st.just("reply"),
    },
)
CHOICE = kind(
    "human_gate",
    {**ASKING, "answer": st.just("choose"), "choices": st.just(["left", "right"])},
    {**COMMON, **SILENCE, "who": st.just(["owner"])},
)
EVENT = kind(
    "wait_for_event",
    {"event": st.just("news")},
    {
        "key": st.just("k"),
        "timeout": st.just(HOUR),
        "on_timeout": st.just("continue"),
        "on_error": st.just("continue"),
    },
)
# A run may start only runs of a later slug: one that would wait for its own seat is
# refused (test_circles.py).
CHILD = kind("run_workflow", {}, {"timeout": st.just(HOUR), **COMMON})
STEP = st.one_of(CALL, COMMAND, GATE, SLEEP, PROMPT, CHOICE, EVENT, CHILD)
STEPS = st.lists(STEP, min_size=1, max_size=4)

OVERLAPS = st.sampled_from(
    [
        {},
        {"overlap": "join"},
        {"overlap": "wait"},
        {"overlap": "replace"},
        {"overlap": "allow"},
        {"limit": 2},
        {"overlap": "wait", "limit": 2},
        {"overlap": "replace", "limit": 2},
    ]
)


def recipe(slug: str, steps: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a workflow's file: steps named in order, children of the next slug."""
    named = []
    for number, step in enumerate(steps):
        if step["kind"] == "run_workflow" and slug == SLUGS[-1]:
            step = {"kind": "sleep", "seconds": HOUR}
        elif step["kind"] == "run_workflow":
            step = {**step, "workflow": SLUGS[SLUGS.index(slug) + 1]}
        named.append({"name": f"s{number}", **step})
    return {"slug": slug, "steps": named, **more}
