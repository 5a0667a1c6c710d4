from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests import drive, factories
from threads import gates
from threads.models import Gate
from workflows import authoring
from workflows.services import Start, spawn_run


@pytest.fixture
def signed_in(client, alice):
    client.force_login(alice)
    return client


def text_of(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def queries_of(client, path):
    with CaptureQueriesContext(connection) as caught:
        text_of(client, path)
    return len(caught)


def test_an_empty_house_says_what_to_do(signed_in):
    assert "Nothing waits for you." in text_of(signed_in, "/")
    assert "Start a workflow" in text_of(signed_in, "/runs/")
    assert "wf apply" in text_of(signed_in, "/workflows/")


def test_the_inbox_shows_what_waits_first_and_is_answered_in_place(
    signed_in, house, alice
):
    flow = factories.workflow(house, factories.gate("ask", "Go?"), name="Deploy")
    run = drive.carry(spawn_run(flow).run)

    page = text_of(signed_in, "/")
    form = f'action="/runs/{run.pk}/decide/"'

    assert form in page
    assert page.index(form) < page.index("Newest runs")
    gate = Gate.objects.get()
    signed_in.post(f"/runs/{run.pk}/decide/", {"gate": gate.pk, "answer": "approve"})
    assert "Nothing waits for you." in text_of(signed_in, "/")


def test_a_viewer_reads_what_waits_for_others_and_counts_none_of_it(
    client, signed_in, house, carol
):
    flow = factories.workflow(house, factories.gate("ask", "Go?"), name="Deploy")
    drive.carry(spawn_run(flow).run)
    mine = text_of(signed_in, "/")
    client.force_login(carol)

    page = text_of(client, "/")

    assert "<h1>Waiting for you</h1>" in mine
    assert 'aria-label="1 waiting"' in mine
    assert "Waiting for others" not in mine
    assert "<h1>Waiting for others</h1>" in page
    assert "Waiting for you" not in page
    assert "Go?" in page
    assert 'value="approve"' not in page
    assert 'class="count"' not in page


def test_the_count_is_of_the_questions_a_person_may_answer(client, house, alice, bob):
    asked: list[dict[str, Any]] = [
        {},
        {"who": ["alice"]},
        {"not_starter": True},
        {"approvals": 2},
    ]
    for number, how in enumerate(asked):
        flow = factories.workflow(house, factories.gate(**how), slug=f"s{number}")
        run = drive.carry(spawn_run(flow, start=Start(by=bob)).run)
    gates.decide(drive.open_gate(run).pk, person=bob, answer="approve", door="page")

    for person, count in ((alice, 4), (bob, 1)):
        client.force_login(person)
        page = text_of(client, "/")
        assert f'aria-label="{count} waiting"' in page
        assert ("<h2>Waiting for others</h2>" in page) is (person == bob)


def test_a_house_of_others_is_nowhere(client, house, dave):
    flow = factories.workflow(house, factories.gate("ask", "Go?"), name="Deploy")
    run = drive.carry(spawn_run(flow).run)
    client.force_login(dave)

    for path in ("/", "/runs/", "/workflows/"):
        page = text_of(client, path)
        assert "Deploy" not in page
        assert str(run.pk) not in page


def test_runs_are_filtered_by_the_address(signed_in, house):
    good = factories.workflow(house, factories.command("a"), slug="good", name="Good")
    bad = factories.workflow(
        house, factories.command("b", "exit 1"), slug="bad", name="Bad"
    )
    done, failed = (drive.carry(spawn_run(flow).run) for flow in (good, bad))

    def found(query):
        page = text_of(signed_in, f"/runs/?{query}")
        return [run for run in (done, failed) if f"/runs/{run.pk}/" in page]

    assert found("") == [done, failed]
    assert found("state=completed") == [done]
    assert found("failed=on") == [failed]
    assert found("workflow=bad") == [failed]
    assert found("workflow=none") == []
    assert found("state=nonsense&limit=-3") == [done, failed]
    assert found("limit=1") == [failed]
    assert "Show more" in text_of(signed_in, "/runs/?limit=1")


def test_a_failed_run_stands_in_the_list_with_its_reason(signed_in, house):
    flow = factories.workflow(house, factories.command("check", "exit 7"))
    drive.carry(spawn_run(flow).run)

    assert "check: exited with status 7" in text_of(signed_in, "/runs/")


def test_the_list_says_that_no_conductor_runs(signed_in):
    page = text_of(signed_in, "/runs/")

    assert "No conductor has run here yet" in page
    assert "<code>manage.py up</code>" in page


def test_workflows_say_when_they_run_and_how_the_last_one_went(signed_in, house):
    flow = factories.workflow(
        house, factories.command("a"), schedule="0 6 * * *", name="Morning"
    )
    drive.carry(spawn_run(flow).run)
    authoring.pause_workflow(
        factories.workflow(house, factories.command("a"), slug="other"),
        reason="on holiday",
    )

    page = text_of(signed_in, "/workflows/")

    assert "At 06:00, every day (UTC)" in page
    assert "completed" in page
    assert "Paused: on holiday" in page
    assert 'href="/workflows/nightly/start/"' in page


@pytest.mark.parametrize("path", ["/", "/runs/", "/workflows/"])
def test_more_rows_cost_no_further_query(signed_in, house, alice, path):
    def fill(number):
        flow = factories.workflow(house, factories.gate(), slug=f"w{number}")
        drive.carry(spawn_run(flow, start=Start(by=alice)).run)

    fill(0)
    before = queries_of(signed_in, path)
    for number in range(1, 5):
        fill(number)

    assert queries_of(signed_in, path) == before


@pytest.mark.parametrize("path", ["/", "/runs/", "/workflows/"])
def test_a_list_asks_again_and_is_told_only_what_changed(signed_in, house, path):
    flow = factories.workflow(house, factories.gate())
    page = text_of(signed_in, path)
    again = page.split('hx-get="')[1].split('"')[0].replace("&amp;", "&")

    assert signed_in.get(again).status_code == 204
    drive.carry(spawn_run(flow).run)
    changed = signed_in.get(again)

    assert changed.status_code == 200
    assert b"<html" not in changed.content


def test_a_viewer_sees_no_start_button(client, house, carol):
    factories.workflow(house, factories.gate(), name="Deploy")
    client.force_login(carol)

    page = text_of(client, "/workflows/")

    assert "Deploy" in page
    assert "/start/" not in page


@pytest.mark.parametrize("path", ["/", "/runs/", "/workflows/"])
def test_a_list_is_only_read(signed_in, path):
    assert signed_in.post(path).status_code == 405
    assert signed_in.head(path).status_code == 200
    assert "no-store" in signed_in.get(path).headers["Cache-Control"]
