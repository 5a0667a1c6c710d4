from __future__ import annotations

import pytest

from tests import drive, factories
from threads import services
from workflows.services import spawn_run


@pytest.fixture
def room(house):
    return services.open_thread(house, title="Lobby <b>")


def test_a_room_shows_its_entries_and_takes_a_reply(client, room, bob):
    client.force_login(bob)

    answer = client.post(f"/threads/{room.pk}/reply/", {"text": "Hello *all*\r\nhi"})

    assert answer.url == f"/threads/{room.pk}/"
    page = client.get(answer.url).content.decode()
    assert "<em>all</em>" in page
    assert "Lobby &lt;b&gt;" in page


def test_an_empty_reply_is_refused_at_the_form(client, room, bob):
    client.force_login(bob)

    answer = client.post(f"/threads/{room.pk}/reply/", {"text": "  "})

    assert answer.status_code == 422
    assert "An answer needs some words." in answer.content.decode()


def test_a_viewer_reads_a_room_and_cannot_speak(client, room, carol):
    client.force_login(carol)

    assert "You can read here" in client.get(f"/threads/{room.pk}/").content.decode()
    assert client.post(f"/threads/{room.pk}/reply/", {"text": "x"}).status_code == 403


def test_a_room_of_another_house_is_not_there(client, room, dave):
    client.force_login(dave)

    assert client.get(f"/threads/{room.pk}/").status_code == 404
    assert client.post(f"/threads/{room.pk}/reply/", {"text": "x"}).status_code == 404
    assert client.post(f"/threads/{room.pk}/decide/").status_code == 404


def test_the_thread_of_a_run_leads_to_the_run(client, house, alice):
    run = spawn_run(factories.workflow(house, factories.gate())).run
    client.force_login(alice)

    answer = client.get(f"/threads/{drive.thread_of(run)}/", follow=True)

    assert answer.redirect_chain[-1][0] == f"/runs/{run.pk}/"
