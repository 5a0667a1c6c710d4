from __future__ import annotations

import re
from io import StringIO

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.tokens import default_token_generator
from django.core.management import call_command
from django.utils.http import urlsafe_base64_decode
from django_celery_beat.models import PeriodicTask

from threads.models import Bot, House, Member
from workflows import authoring, setup
from workflows.models import Workflow


def prepare(*options: str) -> str:
    out = StringIO()
    call_command("prepare", *options, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_the_first_house_has_an_owner_a_bot_and_a_sweep_once(posted):
    for _ in range(2):
        prepare("--no-demo")

    house = House.objects.get()
    owner = Member.objects.get(house=house)
    assert (house.slug, owner.role, owner.user.username) == ("home", "owner", "owner")
    assert owner.user.is_superuser
    assert not owner.user.has_usable_password()
    assert Bot.objects.get(house=house).handle == "runner"
    sweep = PeriodicTask.objects.get(name=setup.SWEEP)
    assert (sweep.task, sweep.queue, sweep.enabled) == ("workflows.sweep", "jobs", True)
    assert not Workflow.objects.exists()


@pytest.mark.django_db
def test_what_it_prints_is_one_path_that_signs_the_owner_in(posted):
    printed = prepare("--no-demo")

    found = re.fullmatch(r"/sign-in/([^/\s]+)/([^/\s]+)/\n", printed)
    assert found
    person = get_user_model().objects.get(pk=urlsafe_base64_decode(found[1]).decode())
    assert person.username == "owner"
    assert default_token_generator.check_token(person, found[2])


@pytest.mark.django_db
def test_the_demo_is_there_unless_it_is_left_out(posted):
    prepare()
    prepare()

    assert set(Workflow.objects.values_list("slug", flat=True)) == {
        "condition-watcher",
        "flakiness-hunter",
        "gated-job",
        "health-probe",
        "nightly-check",
        "weekly-summary",
    }


@pytest.mark.django_db
def test_a_demo_that_was_deleted_does_not_come_back(posted):
    prepare()
    authoring.delete_workflow(Workflow.objects.get(slug="gated-job"))

    prepare()

    assert not Workflow.objects.current().filter(slug="gated-job").exists()


@pytest.mark.django_db
def test_an_owner_who_became_a_member_stays_one(posted):
    prepare("--no-demo")
    Member.objects.update(role="member")

    prepare("--no-demo")

    assert Member.objects.get().role == "member"
