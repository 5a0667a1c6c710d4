"""What people do to a run from its page, and what it says of it."""

from __future__ import annotations

import pytest

from tests import drive, factories, hands
from workflows import documents
from workflows.models import Run
from workflows.services import pause_run, skip_step, spawn_run


def started(house, *steps, **more):
    flow = factories.workflow(house, *steps, name="Ship it", **more)
    return drive.carry(spawn_run(flow, payload={"n": 1}).run)


@pytest.fixture
def asking(house, alice):
    return started(house, factories.gate("ship"), factories.gate("tell"))


@pytest.fixture
def failed(house, alice):
    steps = (factories.gate("ship"), factories.command("build", "exit 3"))
    run = started(house, *steps, factories.gate("tell"))
    skip_step(run.pk, reason="no need")
    return drive.carry(run)


def page_of(client, run):
    answer = client.get(f"/runs/{run.pk}/")
    assert answer.status_code == 200
    return answer.content.decode()


def post(client, run, verb, **data):
    return client.post(f"/runs/{run.pk}/{verb}/", data)


def test_a_run_is_paused_and_resumed_by_its_buttons(client, asking, bob):
    client.force_login(bob)
    assert "Pause the run" in page_of(client, asking)

    assert post(client, asking, "pause", text="fire drill").status_code == 302

    page = page_of(client, asking)
    assert "Paused by bob since" in page
    assert "(fire drill): no further step begins." in page
    assert "Pause the run" not in page
    assert post(client, asking, "resume").status_code == 302
    assert drive.bodies(asking)[-2:] == ["Paused by bob: fire drill", "Resumed by bob."]


def test_a_paused_run_that_waits_for_nothing_else_is_called_paused(client, asking, bob):
    client.force_login(bob)
    pause_run(asking.pk, by=bob)
    skip_step(asking.pk, by=bob, reason="no need")

    assert "Ship it: paused" in page_of(client, asking)


def test_a_resume_of_what_goes_on_is_refused_in_words(client, asking, bob):
    client.force_login(bob)

    answer = post(client, asking, "resume")

    assert answer.status_code == 409
    assert "The run is not paused." in answer.content.decode()


def test_an_author_skips_the_step_with_a_reason(client, asking, alice):
    client.force_login(alice)
    page = page_of(client, asking)
    assert "Skip “ship”" in page
    assert "&quot;approved&quot;: true" in page
    assert "&quot;by&quot;" not in page

    answer = post(client, asking, "skip", text="asked by phone", step="ship")

    assert answer.status_code == 302
    assert drive.steps(drive.carry(asking))[0] == ("ship", "skipped")
    page = page_of(client, asking)
    assert "Skipped ship by alice: asked by phone" in page
    assert "by alice: asked by phone" in page
    assert "by hand" in page


def test_an_author_sets_what_the_step_leaves(client, asking, alice):
    client.force_login(alice)
    result = '{"reply": "yes"}'

    post(client, asking, "set", text="by phone", step="ship", result=result)

    assert asking.steps.filter(result__reply="yes", state="completed").exists()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"text": "", "result": "{}"}, "Say why"),
        ({"text": "x", "result": '{"a'}, "is not JSON"),
        ({"text": "x", "result": '{"b": 1}'}, "leaves approved, reply"),
    ],
)
def test_what_is_refused_stands_beside_the_form_with_what_was_typed(
    client, asking, alice, data, words
):
    client.force_login(alice)

    answer = post(client, asking, "set", step="ship", **data)

    assert answer.status_code == 422
    page = answer.content.decode()
    assert words in page
    assert data["result"].replace('"', "&quot;") in page
    assert drive.open_gate(asking).state == "open"


def test_a_form_of_a_step_that_has_ended_meanwhile_ends_no_other(client, asking, alice):
    client.force_login(alice)
    post(client, asking, "skip", text="one", step="ship")
    drive.carry(asking)

    answer = post(client, asking, "skip", text="two", step="ship")

    assert answer.status_code == 409
    assert drive.steps(asking)[-1] == ("tell", "waiting")


def test_a_member_pauses_and_neither_skips_nor_sets(client, asking, bob):
    client.force_login(bob)

    page = page_of(client, asking)
    assert "Pause the run" in page
    assert "Skip “ship”" not in page
    for verb in ("skip", "set"):
        answer = post(client, asking, verb, text="x", step="ship", result="{}")
        assert answer.status_code == 403
    assert drive.open_gate(asking).state == "open"


def test_a_viewer_has_no_buttons_and_no_way_round_them(client, asking, carol):
    client.force_login(carol)

    assert "Pause the run" not in page_of(client, asking)
    for verb in ("pause", "resume", "skip", "set"):
        assert post(client, asking, verb, text="x").status_code == 403


def test_another_house_finds_nothing(client, asking, dave):
    client.force_login(dave)

    for verb in ("pause", "resume", "skip", "set"):
        assert post(client, asking, verb, text="x").status_code == 404


def test_a_failed_run_goes_on_past_its_step_by_hand(client, failed, alice):
    client.force_login(alice)
    assert "Go on past this step by hand" in page_of(client, failed)

    answer = post(client, failed, "skip", text="done at home", step="build")

    again = Run.objects.get(retry_of=failed)
    assert answer.url == f"/runs/{again.pk}/"
    assert drive.steps(drive.carry(again))[1:] == [
        ("build", "skipped"),
        ("tell", "waiting"),
    ]
    assert again.pk.hex[-8:] in page_of(client, failed)


def test_a_run_is_retried_from_the_step_chosen_with_another_payload(
    client, failed, bob
):
    client.force_login(bob)
    assert "&quot;n&quot;: 1" in page_of(client, failed)

    post(client, failed, "retry", step="ship", payload='{"n": 2}')

    again = Run.objects.get(retry_of=failed)
    assert (again.position, again.payload) == (0, {"n": 2})
    assert "The payload was changed to" in drive.bodies(again)[0]


def test_a_run_is_started_again_with_another_payload(client, failed, bob):
    client.force_login(bob)

    post(client, failed, "again", payload='{"n": 3}', step="build")

    assert Run.objects.latest("created_at").payload == {"n": 3}


@pytest.mark.parametrize("verb", ["retry", "again"])
@pytest.mark.parametrize("payload", ["{", "[1]", '"x"'])
def test_a_payload_that_cannot_be_kept_stands_beside_its_field(
    client, failed, bob, verb, payload
):
    client.force_login(bob)

    answer = post(client, failed, verb, payload=payload)

    assert answer.status_code == 422
    assert 'role="alert">payload' in answer.content.decode()
    assert Run.objects.count() == 1


def test_a_step_that_ran_often_is_told_by_its_last_iterations(
    client, house, alice, calls
):
    step = factories.call("check", "work", repeat={"times": 40})
    run = started(house, step, factories.gate("tell"))
    client.force_login(alice)

    page = page_of(client, run)

    assert "check (40 of 40)" in page
    assert "check (38 of 40)" in page
    assert "37 earlier" in page
    assert "check (37 of 40)" not in page


def test_a_document_holds_the_last_iterations_and_how_many_there_were(house, calls):
    run = started(house, factories.call("check", "work", repeat={"times": 40}))

    steps = documents.run(run)["steps"]

    assert [step["iteration"] for step in steps] == list(range(21, 41))
    assert {(step["iterations"], step["times"]) for step in steps} == {(40, 40)}


def test_a_parent_and_its_child_lead_to_each_other(client, house, alice):
    factories.workflow(house, factories.gate(), slug="inner")
    start = {"name": "child", "kind": "run_workflow", "workflow": "inner"}
    flow = factories.workflow(house, start, slug="outer", deadline="2h")
    run = hands.go_on(spawn_run(flow).run)
    child = Run.objects.get(parent=run)
    client.force_login(alice)

    page = page_of(client, run)
    assert f'href="/runs/{child.pk}/"' in page
    assert "waiting for another run" in page
    assert "must end" in page
    assert f'href="/runs/{run.pk}/"' in page_of(client, child)
