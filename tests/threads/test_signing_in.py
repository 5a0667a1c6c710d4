from __future__ import annotations

from unittest import mock

from django.contrib.auth.tokens import default_token_generator
from django.db import OperationalError
from django.test import Client
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode


def link_for(user):
    code = urlsafe_base64_encode(force_bytes(user.pk))
    return f"/sign-in/{code}/{default_token_generator.make_token(user)}/"


def test_a_stranger_is_asked_to_sign_in_and_comes_back_to_the_page(client, house):
    answer = client.get("/runs/")

    assert answer.status_code == 302
    assert answer.url == "/sign-in/?next=/runs/"


def test_name_and_password_sign_in(client, alice):
    alice.set_password("open sesame")
    alice.save()

    answer = client.post(
        "/sign-in/", {"username": "alice", "password": "open sesame", "next": "/runs/"}
    )

    assert answer.url == "/runs/"
    assert client.get("/").status_code == 200


def test_a_wrong_password_is_said_in_words_and_the_name_is_kept(client, alice):
    answer = client.post("/sign-in/", {"username": "alice", "password": "wrong"})

    page = answer.content.decode()
    assert "correct username and password" in page
    assert 'value="alice"' in page


def test_a_link_signs_in_by_its_button_once(client, alice):
    link = link_for(alice)

    shown = client.get(link)

    assert "as <strong>alice</strong>" in shown.content.decode()
    assert client.get("/").status_code == 302  # looking at it used nothing up
    assert client.post(link).url == "/"
    assert client.get("/").status_code == 200

    again = Client().post(link)

    assert again.status_code == 410
    assert "has been used" in again.content.decode()
    assert "prints a new link" in again.content.decode()


def test_a_link_of_nobody_is_refused(client, db):
    assert client.get("/sign-in/!!!/x-y/").status_code == 410
    assert client.get("/sign-in/OTk5OTk/x-y/").status_code == 410


def test_a_link_of_a_deactivated_person_is_refused(client, alice):
    link = link_for(alice)
    alice.is_active = False
    alice.save()

    assert client.post(link).status_code == 410


def test_an_absent_database_is_said_in_words_at_the_door(client, alice):
    client.force_login(alice)
    gone = OperationalError("connection refused")

    with mock.patch("django.contrib.auth.get_user", side_effect=gone):
        answers = [client.get(path) for path in ("/sign-in/", "/", "/runs/")]

    assert [answer.status_code for answer in answers] == [503, 503, 503]
    assert all("Nothing is lost" in answer.content.decode() for answer in answers)


def test_signing_out_takes_a_button(client, alice):
    client.force_login(alice)

    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/").url == "/sign-in/"
    assert client.get("/").status_code == 302


def test_a_form_without_its_token_is_refused_in_words(alice):
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)

    answer = client.post("/sign-out/")

    assert answer.status_code == 403
    assert "Please try again" in answer.content.decode()
