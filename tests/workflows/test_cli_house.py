from __future__ import annotations

import re

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.tokens import default_token_generator

from threads import tenancy
from threads.models import House, Member, Secret


def test_a_secret_comes_from_stdin_and_is_never_shown(wf, house, alice):
    kept = wf("secret", "set", "TOKEN", stdin="s3cret\n")
    listed = wf("secret", "list", "--json")

    assert kept.status == 0
    assert tenancy.open_secrets(house.pk, ["TOKEN"]) == {"TOKEN": "s3cret"}
    assert listed.document == ["TOKEN"]
    assert "s3cret" not in kept.stdout + kept.stderr + listed.stdout
    assert b"s3cret" not in bytes(Secret.objects.get().value)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("NOT-ONE", "x", "name: “NOT-ONE” must be letters"),
        ("TOKEN", "", "value: it is empty"),
        ("TOKEN", "a\x00b", "value: it is empty or holds a NUL"),
        ("TOKEN", b"\xff", "value: is not UTF-8 text"),
    ],
)
def test_a_bad_secret_is_refused_by_field(wf, house, alice, name, value, reason):
    ended = wf("secret", "set", name, "--json", stdin=value)

    assert (ended.status, ended.stdout) == (1, "")
    assert reason in ended.stderr
    assert not Secret.objects.exists()


def test_a_secret_is_forgotten_once(wf, house, alice):
    wf("secret", "set", "TOKEN", stdin="x")

    assert wf("secret", "remove", "TOKEN", "--json").document["name"] == "TOKEN"
    ended = wf("secret", "remove", "TOKEN")
    assert ended.status == 1
    assert "There is no secret called “TOKEN” here." in ended.stderr


def test_only_owners_keep_secrets_and_add_members(wf, house, alice, bob):
    for words in (
        ("secret", "set", "TOKEN"),
        ("secret", "list"),
        ("member", "add", "erin", "--role", "owner"),
    ):
        ended = wf(*words, "--as", "bob", stdin="x")
        assert ended.status == 1
        assert "Only owners manage the house." in ended.stderr
    assert not Secret.objects.exists()


def test_a_new_member_signs_in_by_a_link(wf, house, alice, settings):
    settings.PUBLIC_URL = "https://house.example/"

    document = wf(
        "member", "add", "erin@example.com", "--role", "author", "--json"
    ).document

    erin = get_user_model().objects.get(username="erin@example.com")
    assert (document["user"], document["role"]) == ("erin@example.com", "author")
    assert document["new"] is True
    assert not erin.has_usable_password()
    assert erin.email == "erin@example.com"
    found = re.fullmatch(
        r"https://house\.example/sign-in/[^/]+/([^/]+)/", document["sign_in"]
    )
    assert found
    assert default_token_generator.check_token(erin, found[1])


def test_adding_again_changes_the_role(wf, house, alice, bob):
    ended = wf("member", "add", "bob", "--role", "author")

    assert ended.stdout.startswith("bob is author of Home.\n")
    assert Member.objects.get(user=bob).role == "author"
    assert get_user_model().objects.filter(username="bob").count() == 1


@pytest.mark.parametrize(
    ("name", "role", "reason"),
    [
        ("erin", "boss", "role: “boss” is not one of owner, author, member, viewer"),
        ("e r i n", "member", "user: "),
        ("", "member", "user: "),
        ("e" * 151, "member", "user: "),
    ],
)
def test_who_cannot_be_added_is_refused_and_nobody_is_made(
    wf, house, alice, name, role, reason
):
    ended = wf("member", "add", name, "--role", role, "--json")

    assert (ended.status, ended.stdout) == (1, "")
    assert reason in ended.stderr
    assert get_user_model().objects.count() == 1


def test_members_are_listed(wf, house, alice, bob):
    listed = wf("member", "list", "--json").document

    assert [(line["user"], line["role"]) for line in listed] == [
        ("alice", "owner"),
        ("bob", "member"),
    ]
    assert "bob" in wf("member", "list").stdout


def test_json_may_stand_before_the_command(wf, house, alice):
    assert wf("--json", "list").document == []
    assert wf("--house", "home", "list", "--json").document == []


def test_without_a_house_the_way_to_one_is_told(wf, db):
    ended = wf("list", "--json")

    assert (ended.status, ended.stdout) == (1, "")
    assert "manage.py up" in ended.stderr


def test_a_house_without_an_owner_asks_for_a_name(wf, house, bob):
    ended = wf("list")

    assert ended.status == 1
    assert "The house “home” has no owner to act as" in ended.stderr
    assert wf("list", "--as", "bob").status == 0


def test_another_house_is_named(wf, house, alice, dave):
    Member.objects.filter(user=dave).update(role="owner")

    assert House.objects.count() == 2
    assert [
        m["user"] for m in wf("member", "list", "--house", "away", "--json").document
    ] == ["dave"]
