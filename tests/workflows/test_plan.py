from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.durations import read_duration, read_moment
from workflows.plan import (
    KINDS,
    DispatchTask,
    HumanGate,
    Problem,
    Recipe,
    Refused,
    RunCommand,
    Sleep,
    Unknown,
    dump_file,
    load_file,
    parse_recipe,
    parse_step,
    template_fields,
    timeout_seconds,
    to_dict,
    to_json,
)

NIGHTLY = """
slug: nightly-check
name: Nightly check
bot: runner
schedule: "0 6 * * *"        # five fields or @daily …
overlap: join
max_attempts: 5
steps:
  - {name: checks, kind: run_command, command: "make test", timeout: 10m, on_error: continue}
  - {name: investigate, kind: dispatch_task, when: on_failure, prompt: "These checks failed: {{steps.checks.output}}"}
  - {name: approve, kind: human_gate, prompt: "Publish {{payload.branch}}?", answer: approve, deadline: 2d, on_deadline: fail}
  - {name: settle, kind: sleep, seconds: 3600}     # or until: "2027-01-01T09:00:00Z"
  - {name: publish, kind: run_command, command: "./publish.sh {{branch}}"}
"""
FULL = {
    "slug": "full",
    "name": "Everything said",
    "bot": "pi",
    "schedule": "@daily",
    "missed": "skip",
    "overlap": "replace",
    "limit": 2,
    "max_attempts": 3,
    "notify": ["alice"],
    "steps": [
        {
            "name": "build",
            "kind": "run_command",
            "when": "always",
            "on_error": "continue",
            "retries": {"limit": 3, "delay": "1m", "backoff": 2},
            "timeout": "2h",
            "if_interrupted": "ask",
            "source": "checkout",
            "network": True,
            "env": {"BRANCH": "{{payload.branch}}", "PORT": 8080},
            "secrets": ["DEPLOY_TOKEN"],
            "artifacts": ["dist/*.whl"],
            "command": "make build\nmake dist\n",
        },
        {"name": "look", "kind": "dispatch_task", "prompt": "Look.", "bot": "claude"},
        {"name": "pause", "kind": "sleep", "until": "2027-01-01T09:00:00Z"},
        {"name": "nap", "kind": "sleep", "seconds": "{{payload.nap}}"},
        {
            "name": "which",
            "kind": "human_gate",
            "prompt": "Which?",
            "answer": "choose",
            "choices": ["yes", "no", "1"],
            "deadline": "3d",
            "on_deadline": "reject",
            "not_starter": True,
            "who": ["owner"],
            "approvals": 2,
        },
        {
            "name": "ask",
            "kind": "human_gate",
            "prompt": "Fill in.",
            "answer": "form",
            "form": {"type": "object", "properties": {"version": {"type": "string"}}},
        },
        {
            "name": "send",
            "kind": "call",
            "function": "mail.send",
            "args": {"rows": "{{steps.build.output}}", "n": [1, None, 2.5]},
        },
    ],
}


def recipe(*steps: dict[str, object], **fields: object) -> dict[str, object]:
    return {"slug": "w", "steps": list(steps) or [command()], **fields}


def command(name: str = "one", **fields: object) -> dict[str, object]:
    return {"name": name, "kind": "run_command", "command": "true", **fields}


def query(**fields: object) -> dict[str, object]:
    return {
        "name": "one",
        "kind": "query",
        "database": "d",
        "sql": "SELECT 1",
        **fields,
    }


def gate(**fields: object) -> dict[str, object]:
    return {"name": "one", "kind": "human_gate", "prompt": "Go?", **fields}


def sleep(**fields: object) -> dict[str, object]:
    return {"name": "one", "kind": "sleep", **fields}


def call(**fields: object) -> dict[str, object]:
    return {"name": "one", "kind": "call", "function": "f", **fields}


def problems(data: object) -> list[str]:
    with pytest.raises(Refused) as refusal:
        parse_recipe(data)
    assert str(refusal.value) == "\n".join(map(str, refusal.value.problems))
    return [f"{one.field}: {one.reason}" for one in refusal.value.problems]


def test_the_file_of_the_contract_is_read_into_typed_steps():
    nightly = parse_recipe(load_file(NIGHTLY))

    assert nightly.slug == "nightly-check"
    assert nightly.schedule == "0 6 * * *"
    checks, investigate, approve, settle, publish = nightly.steps
    assert isinstance(checks, RunCommand)
    assert isinstance(investigate, DispatchTask)
    assert isinstance(approve, HumanGate)
    assert isinstance(settle, Sleep)
    assert isinstance(publish, RunCommand)
    assert timeout_seconds(checks) == 600
    assert timeout_seconds(publish) is None
    assert (approve.deadline, approve.on_deadline) == (172_800, "fail")
    assert settle.seconds == 3600


def test_what_a_file_leaves_out_has_a_default():
    plain = parse_recipe(recipe())

    assert plain.name == "w"
    assert plain.bot == "runner"
    assert (plain.schedule, plain.timezone, plain.missed) == (None, "UTC", "run_once")
    assert (plain.overlap, plain.limit, plain.max_attempts) == (None, None, 5)
    step = plain.steps[0]
    assert (step.when, step.on_error, step.retries) == ("on_success", "stop", None)
    assert isinstance(step, RunCommand)
    assert step.if_interrupted == "again"
    assert step.network is False


@pytest.mark.parametrize("text", [NIGHTLY, json.dumps(FULL), dump_file(FULL)])
def test_a_workflow_comes_back_from_its_file_as_it_was(text):
    first = parse_recipe(load_file(text))

    again = parse_recipe(load_file(dump_file(to_dict(first))))

    assert again == first
    assert to_json(again) == to_json(first)
    assert dump_file(to_dict(again)) == dump_file(to_dict(first))


def test_a_schedule_is_kept_with_single_blanks():
    assert parse_recipe(recipe(schedule=" 0  9\t* * * ")).schedule == "0 9 * * *"


def test_stored_steps_say_only_what_is_not_the_default():
    stored = to_json(parse_recipe(load_file(NIGHTLY)))

    assert stored[0] == {
        "name": "checks",
        "kind": "run_command",
        "on_error": "continue",
        "timeout": 600,
        "command": "make test",
    }
    assert json.loads(json.dumps(stored)) == stored


def test_stored_steps_are_read_back_as_they_were():
    for text in (NIGHTLY, json.dumps(FULL)):
        written = parse_recipe(load_file(text))

        assert [parse_step(step) for step in to_json(written)] == written.steps


def test_a_stored_step_of_a_later_release_is_read_by_what_is_known():
    step = parse_step(
        command(colour="red", retries={"limit": 1, "delay": 5, "until": "noon"})
    )

    assert isinstance(step, RunCommand)
    assert step.retries is not None
    assert step.retries.limit == 1


def test_a_stored_step_of_an_unknown_kind_is_a_value():
    step = parse_step({"name": "q", "kind": "quantum", "qubits": 3})

    assert step == Unknown(name="q", kind="quantum")


def test_a_stored_step_that_makes_no_sense_is_refused():
    with pytest.raises(Refused, match="command: missing"):
        parse_step({"name": "q", "kind": "run_command"})


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], ": a workflow is a mapping of keys to values"),
        (None, ": a workflow is a mapping of keys to values"),
        ({"steps": [command()]}, "slug: missing"),
        ({"slug": "w"}, "steps: missing"),
        ({"slug": "w", "steps": []}, "steps: must not be empty"),
        ({"slug": "w", "steps": {}}, "steps: must be a list"),
        (recipe(*[command(f"s{n}") for n in range(501)]), "steps: must have at most 500 items"),
        (recipe(slug="a b"), "slug: must be 1 to 64 letters, digits, - or _"),
        (recipe(slug="x" * 65), "slug: must be 1 to 64 letters, digits, - or _"),
        (recipe(slug="ok\n"), "slug: must be 1 to 64 letters, digits, - or _"),
        (recipe(slug=7), "slug: must be text; put it in quotes"),
        (recipe(name="x" * 201), "name: must have at most 200 characters"),
        (recipe(colour="red"), "colour: unknown key"),
        (recipe(schedules="@daily"), "schedules: unknown key; did you mean “schedule”?"),
        (recipe(schedule="0 0 31 2 *"), "schedule: day of month: “31”: no such date ever comes"),
        (recipe(schedule="* * * *"), "schedule: schedule: “* * * *”: five fields are needed, this has 4"),
        (recipe(timezone="Europe/Copenhagen"), "timezone: only UTC for now; other zones are not available yet"),
        (recipe(missed="all"), "missed: must be one of run_once, skip"),
        (recipe(overlap="queue"), "overlap: must be one of join, wait, replace, allow"),
        (recipe(limit=0), "limit: must be at least 1"),
        (recipe(limit=True), "limit: must be a whole number"),
        (recipe(max_attempts=101), "max_attempts: must be at most 100"),
        (recipe(max_attempts="5"), "max_attempts: must be a whole number"),
        (recipe(notify="alice"), "notify: must be a list"),
        ({"slug": "w", "steps": ["not a step"]}, "steps[0]: must be a mapping of keys to values"),
        (recipe({"name": "a"}), "steps[0].kind: missing"),
        (recipe({"name": "a", "kind": "wait_for_event", "event": "e" * 201}), "steps[0].event: must have at most 200 characters"),
        (recipe({"name": "a", "kind": "quiz"}), "steps[0].kind: must be one of call, dispatch_task, human_gate, open_thread, query, run_command, run_workflow, sleep, wait_for_event"),
        (recipe(query(sql=" ")), "steps[0].sql: must not be empty"),
        (recipe(query(sql="SELECT 1; SELECT 2")), "steps[0]: sql must be one statement, and not empty"),
        (recipe(query(sql="SELECT :a")), "steps[0]: sql names :a, which params does not have"),
        (recipe(query(params={"a": 1})), "steps[0]: sql does not name :a, which params has"),
        (recipe(query(params={"a-b": 1})), "steps[0].params.a-b: must be a variable's name: letters, digits and _"),
        (recipe(query(database="a b")), "steps[0].database: must be 1 to 64 letters, digits, - or _"),
        (recipe({"kind": "run_command", "command": "x"}), "steps[0].name: missing"),
        (recipe(command("a b")), "steps[0].name: must be 1 to 64 letters, digits, - or _"),
        (recipe(command("é")), "steps[0].name: must be 1 to 64 letters, digits, - or _"),
        (recipe(command(), command()), "steps[1].name: another step is called “one”"),
        (recipe(command(commands="x")), "steps[0].commands: unknown key; did you mean “command”?"),
        (recipe(command(prompt="x")), "steps[0].prompt: unknown key"),
        (recipe(command(command=" ")), "steps[0].command: must not be empty"),
        (recipe(command(command=5)), "steps[0].command: must be text; put it in quotes"),
        (recipe(command(when="later")), "steps[0].when: must be one of on_success, on_failure, always"),
        (recipe(command(on_error="retry")), "steps[0].on_error: must be one of stop, continue"),
        (recipe(command(if_interrupted="maybe")), "steps[0].if_interrupted: must be one of again, fail, ask"),
        (recipe(gate(network=True)), "steps[0].network: unknown key"),
        (recipe(schedule="0," * 200 + "0 * * * *"), "schedule: must have at most 200 characters"),
        (recipe(command(timeout="5 weeks")), "steps[0].timeout: must be seconds or a duration such as 90s, 10m, 2h, 3d"),
        (recipe(command(timeout=0)), "steps[0].timeout: must be longer than 0 seconds"),
        (recipe(command(timeout="40000d")), "steps[0].timeout: must be from 0 to a hundred years"),
        (recipe(command(retries=3)), "steps[0].retries: must be a mapping of keys to values"),
        (recipe(command(retries={})), "steps[0].retries.limit: missing"),
        (recipe(command(retries={"limit": -1})), "steps[0].retries.limit: must be at least 0"),
        (recipe(command(retries={"limit": 1, "backoff": 0.5})), "steps[0].retries.backoff: must be at least 1.0"),
        (recipe(command(network="yes")), "steps[0].network: must be true or false"),
        (recipe(command(env={"A": 1.5})), "steps[0].env.A: must be text; put it in quotes"),
        (recipe(command(env={"A": True})), "steps[0].env.A: must be text; put it in quotes"),
        (recipe(command(env={"A-B": "c"})), "steps[0].env.A-B: must be a variable's name: letters, digits and _"),
        (recipe(command(env={"THREADWORK_RUN": "c"})), "steps[0].env.THREADWORK_RUN: names beginning with THREADWORK_ are taken"),
        (recipe(command(secrets=["A B"])), "steps[0].secrets[0]: must be a variable's name: letters, digits and _"),
        (recipe(command(artifacts=["../x"])), "steps[0].artifacts[0]: must stay inside the workspace"),
        (recipe(command(artifacts=["/etc/passwd"])), "steps[0].artifacts[0]: must stay inside the workspace"),
        (recipe(sleep()), "steps[0]: needs either seconds or until"),
        (recipe(sleep(seconds=1, until="2027-01-01")), "steps[0]: needs either seconds or until"),
        (recipe(sleep(seconds=-5)), "steps[0].seconds: must be from 0 to a hundred years"),
        (recipe(sleep(seconds="soon")), "steps[0].seconds: must be seconds or a duration such as 90s, 10m, 2h, 3d"),
        (recipe(sleep(seconds=True)), "steps[0].seconds: must be seconds or a duration such as 90s, 10m, 2h, 3d"),
        (recipe(sleep(until="tomorrow")), "steps[0].until: must be a moment such as 2027-01-01T09:00:00Z"),
        (recipe(gate(prompt="")), "steps[0].prompt: must not be empty"),
        (recipe(gate(answer="vote")), "steps[0].answer: must be one of approve, reply, acknowledge, choose, form"),
        (recipe(gate(approvals=0)), "steps[0].approvals: must be at least 1"),
        (recipe(gate(answer="choose")), "steps[0]: choices belong to `answer: choose`, which needs some"),
        (recipe(gate(choices=["a"])), "steps[0]: choices belong to `answer: choose`, which needs some"),
        (recipe(gate(answer="choose", choices=["a", "a"])), "steps[0]: choices must differ from each other"),
        (recipe(gate(answer="form")), "steps[0]: a form belongs to `answer: form`, which needs one"),
        (recipe(gate(answer="form", form={"type": "array"})), "steps[0].form: must be a JSON schema of type object with properties"),
        (recipe(call(args=[1])), "steps[0].args: must be a mapping of keys to values"),
        (recipe(call(function="")), "steps[0].function: must not be empty"),
    ],
)  # fmt: skip
def test_a_workflow_is_refused_by_field_and_reason(data, problem):
    assert problems(data) == [problem]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (recipe(command(command="a\x00b")), "steps[0].command: holds a NUL character"),
        (recipe(name="\ud800"), "name: holds half of a surrogate pair"),
        (recipe(call(args={"a": [float("nan")]})), "steps[0].args.a[0]: holds a number that is not finite"),
        (recipe(call(args={"\x00": 1})), "steps[0].args: a key holds a NUL character"),
        (recipe(sleep(seconds=float("inf"))), "steps[0].seconds: holds a number that is not finite"),
        ({"slug": "w", 1: 2}, ": the key 1 is not text"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_by_field(data, problem):
    assert problems(data) == [problem]


def test_every_problem_is_named_at_once_with_its_step():
    bad = recipe(command("build", commands="x"), sleep(name="nap", seconds=-1), limit=0)

    with pytest.raises(Refused) as refusal:
        parse_recipe(bad)

    assert [(one.field, one.step) for one in refusal.value.problems] == [
        ("limit", ""),
        ("steps[0].commands", "build"),
        ("steps[1].seconds", "nap"),
    ]
    assert "steps[0].commands (step “build”): unknown key" in str(refusal.value)


@pytest.mark.parametrize(
    ("step", "field", "reason"),
    [
        (command(command="echo {{payload..s}}"), "steps[0].command", "malformed placeholder “{{payload..s}}” at character 6"),
        (command(env={"A": "{{}}"}), "steps[0].env.A", "malformed placeholder “{{}}” at character 1"),
        (gate(prompt="{{ open"), "steps[0].prompt", "malformed placeholder “{{ open” at character 1"),
        (call(args={"a": [1, {"b": "{{x | y}}"}]}), "steps[0].args.a[1].b", "malformed placeholder “{{x | y}}” at character 1"),
        (sleep(seconds="{{"), "steps[0].seconds", "malformed placeholder “{{” at character 1"),
        (sleep(until="{{}}"), "steps[0].until", "malformed placeholder “{{}}” at character 1"),
        (command(command="{{steps.one.output}}"), "steps[0].command", "“steps.one.output” names step “one”, which does not come before it"),
        (command(command="{{steps.two.output}}"), "steps[0].command", "“steps.two.output” names step “two”, which does not come before it"),
        (command(command="{{steps.nobody}}"), "steps[0].command", "“steps.nobody” names step “nobody”, which is not in the workflow"),
    ],
)  # fmt: skip
def test_a_placeholder_is_refused_with_its_place(step, field, reason):
    (problem,) = problems(recipe(step, command("two")))

    assert problem.startswith(f"{field}: {reason}")


def test_an_earlier_step_may_be_named():
    two = command(
        "two", command=r"echo {{steps.one.output}} \{{steps.three}} {{branch}}"
    )

    assert len(parse_recipe(recipe(command(), two)).steps) == 2


@pytest.mark.parametrize(
    ("step", "fields"),
    [
        (command(env={"A": "b"}), {"command": "true", "env": {"A": "b"}}),
        (gate(), {"prompt": "Go?"}),
        (sleep(seconds="{{n}}"), {"seconds": "{{n}}"}),
        (sleep(until="{{t}}"), {"until": "{{t}}"}),
        (call(args={"a": 1}), {"args": {"a": 1}}),
    ],
)
def test_the_fields_with_placeholders_are_known(step, fields):
    found = template_fields(parse_recipe(recipe(step)).steps[0])

    assert {name: value for name, value in found.items() if value != {}} == fields


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0), (90, 90), (1.5, 1.5), ("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200),
        ("3d", 259_200), (" 10 m ", 600), ("0.5h", 1800), ("400d", 34_560_000),
        ("36525d", 3_155_760_000),
    ],
)  # fmt: skip
def test_a_duration_is_read_as_seconds(written, seconds):
    assert read_duration(written) == seconds
    assert isinstance(read_duration(written), type(seconds))


@pytest.mark.parametrize(
    "written",
    [True, None, "", "soon", "-5", -1, "1w", "1e3", "٣s", "10M", "1h30", float("nan"),
     float("inf"), "36526d", 10**30, [], "9" * 5000],
)  # fmt: skip
def test_what_is_no_duration_is_refused(written):
    with pytest.raises(ValueError, match="must be"):
        read_duration(written)


@pytest.mark.parametrize(
    "written",
    ["2027-01-01T09:00:00Z", "2027-01-01T10:00:00+01:00", "2027-01-01T09:00", " 2027-01-01 09:00 "],
)  # fmt: skip
def test_a_moment_is_read_as_utc(written):
    assert read_moment(written) == datetime(2027, 1, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "written", ["", "noon", "2027-13-01", "0001-01-01T00:00:00+14:00"]
)
def test_what_is_no_moment_is_refused(written):
    with pytest.raises(ValueError, match="must be a moment"):
        read_moment(written)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file is not a mapping of keys to values"),
        ("- a\n- b\n", "the file is not a mapping of keys to values"),
        ("just words", "the file is not a mapping of keys to values"),
        ("[1, 2]", "the file is not a mapping of keys to values"),
        ("slug: a\nslug: b\n", "“slug” is there twice at line 2, column 1"),
        ('{"slug": "a", "slug": "b"}', "“slug” is there twice"),
        ("slug: a\nsteps: [\n", "at line 3, column 1"),
        ("slug: 'a\n", "at line 2, column 1"),
        ("slug: a\n\tname: b\n", "at line 2, column 1"),
        ('{"slug": "a",\n "steps": ]', "at line 2"),
        ("a: &x [1]\nb: *x\n", "aliases are refused at line 2, column 4"),
        ("a: &x {b: 1}\nc: {<<: *x}\n", "aliases are refused at line 2, column 9"),
        ("a: !!python/object/apply:os.system ['id']\n", "tags are refused at line 1"),
        ("a: !!timestamp x\n", "tags are refused at line 1, column 4"),
        ("1: a\n", "a key must be text at line 1, column 1"),
        ("? [a]\n: b\n", "a key must be text at line 1, column 3"),
        ("slug: a\n--- \nslug: b\n", "at line 2, column 1"),
        ("slug: a\nname: b\x00c\n", "a character that cannot be kept at line 2"),
        ("a: " + "[" * 5000 + "]" * 5000, "the file is nested too deeply"),
        ('{"a": ' + "[" * 200_000 + "]" * 200_000 + "}", "the file is nested too deeply"),
        ("a: " + "9" * 5000, "a number is too large"),
        ('{"a": ' + "9" * 5000 + "}", "a number is too large"),
        ("a" * 1_000_001, "the file is longer than 1000000 characters"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_refused_with_its_place(text, reason):
    with pytest.raises(Refused) as refusal:
        load_file(text)

    assert reason in str(refusal.value)


def test_plain_words_of_a_file_stay_words():
    text = "{on: yes, off: no, at: 12:30, day: 2027-01-01, id: 0123, exp: 1e3, n: 5, f: 1.5, t: true, z: null, e: }"

    assert load_file(text) == {
        "on": "yes", "off": "no", "at": "12:30", "day": "2027-01-01", "id": "0123",
        "exp": "1e3", "n": 5, "f": 1.5, "t": True, "z": None, "e": None,
    }  # fmt: skip


def test_a_byte_order_mark_is_no_part_of_a_file():
    assert load_file("\ufeffslug: a\n") == {"slug": "a"}


def test_a_gate_may_offer_yes_and_no():
    text = "{slug: w, steps: [{name: a, kind: human_gate, prompt: Go, answer: choose, choices: [yes, no]}]}"

    step = parse_recipe(load_file(text)).steps[0]

    assert isinstance(step, HumanGate)
    assert step.choices == ["yes", "no"]


def test_a_long_command_is_written_as_a_block():
    assert "command: |\n    make build\n" in dump_file(FULL).replace("  - ", "- ")


def test_all_kinds_are_known():
    assert sorted(KINDS) == [
        "call", "dispatch_task", "human_gate", "open_thread", "query", "run_command",
        "run_workflow", "sleep",
        "wait_for_event",
    ]  # fmt: skip


def test_a_problem_reads_as_one_line():
    assert str(Problem("limit", "must be at least 1")) == "limit: must be at least 1"
    assert str(Problem("", "no file")) == "no file"


@given(st.text(max_size=200))
def test_any_file_is_a_mapping_or_a_refusal(text):
    try:
        assert isinstance(load_file(text), dict)
    except Refused:
        return


WORDS = st.sampled_from(["yes", "no", "0123", "1e3", "~", "", "2027-01-01", "a: b", "|", "1:30", "=", "<<", ".5", "0x1F", "1_000", "+1", "-.inf"])  # fmt: skip
TEXTS = WORDS | st.text(st.characters(codec="utf-8", exclude_characters="\x00"))


@given(st.dictionaries(TEXTS, TEXTS | st.integers() | st.booleans() | st.none()))
def test_what_is_written_to_a_file_is_read_from_it(data):
    assert load_file(dump_file(data)) == data


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
KEYS = st.sampled_from(sorted({*Recipe.model_fields, *RunCommand.model_fields, *HumanGate.model_fields, *Sleep.model_fields}))  # fmt: skip
STEPS = st.builds(
    lambda kind, fields: {"name": "a", "kind": kind, **fields},
    st.sampled_from([*sorted(KINDS), "other"]),
    st.dictionaries(KEYS, VALUES, max_size=4),
)


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.lists(STEPS, max_size=3))
def test_any_value_is_a_workflow_or_a_refusal(fields, steps):
    try:
        parse_recipe({"slug": "w", "steps": steps, **fields})
    except Refused as refusal:
        assert refusal.problems  # noqa: PT017 - either end is right
