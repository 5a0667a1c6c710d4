from __future__ import annotations

import pytest

from tests import factories
from workflows import authoring
from workflows.models import Run


@pytest.fixture
def flow(house):
    return factories.workflow(
        house, factories.command("a", "echo {{branch}} {{payload.user.name}}")
    )


def once_of(client):
    page = client.get("/workflows/nightly/start/").content.decode()
    return page.split('name="once" value="')[1].split('"')[0]


def test_a_start_leads_to_the_new_run(client, flow, bob):
    client.force_login(bob)

    answer = client.post(
        "/workflows/nightly/start/",
        {"payload": '{"branch": "main"}', "once": once_of(client)},
    )

    run = Run.objects.get()
    assert answer.url == f"/runs/{run.pk}/"
    assert run.payload == {"branch": "main"}
    assert "Started by bob" in client.get(answer.url).content.decode()


def test_the_button_pressed_twice_starts_one_run(client, flow, bob):
    client.force_login(bob)
    data = {"payload": "", "once": once_of(client)}

    first, second = (client.post("/workflows/nightly/start/", data) for _ in range(2))

    assert first.url == second.url
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("{branch}", "The payload is not JSON"),
        ("[1]", "The payload must be a JSON object"),
        ('{"a": NaN}', "NaN"),
        ('{"a": "\\u0000"}', "payload.a: holds a NUL character"),
    ],
)
def test_a_payload_that_cannot_be_kept_is_refused_beside_the_field(
    client, flow, bob, payload, reason
):
    client.force_login(bob)

    answer = client.post(
        "/workflows/nightly/start/", {"payload": payload, "once": once_of(client)}
    )

    page = answer.content.decode()
    assert answer.status_code == 422
    assert reason in page
    assert payload.replace('"', "&quot;") + "</textarea>" in page
    assert not Run.objects.exists()


def test_the_form_says_what_the_steps_read(client, flow, bob):
    client.force_login(bob)

    page = client.get("/workflows/nightly/start/").content.decode()

    assert "<code>branch</code>, <code>user.name</code>" in page


def test_a_paused_workflow_says_that_its_run_waits(client, flow, bob):
    authoring.pause_workflow(flow)
    client.force_login(bob)

    assert "is paused" in client.get("/workflows/nightly/start/").content.decode()


def test_a_viewer_cannot_start_and_a_stranger_finds_nothing(client, flow, carol, dave):
    for person, status in ((carol, 403), (dave, 404)):
        client.force_login(person)
        assert client.get("/workflows/nightly/start/").status_code == status
        assert client.post("/workflows/nightly/start/").status_code == status
    assert not Run.objects.exists()
