from __future__ import annotations

import pytest
from django.apps import apps
from django.urls import reverse

from tests import drive, factories
from threads import tenancy
from threads.models import Secret
from workflows.models import Run, Workflow
from workflows.services import spawn_run

STEPS = "- name: a\n  kind: run_command\n  command: echo hello\n"


@pytest.fixture
def staff(client, alice):
    alice.is_staff = alice.is_superuser = True
    alice.save()
    client.force_login(alice)
    return client


def form(house, **more):
    return {
        "house": house.pk, "slug": "deploy", "name": "Deploy", "bot": "runner",
        "schedule": "", "timezone": "UTC", "missed": "run_once", "overlap": "",
        "limit": "", "max_attempts": 5, "notify": "", "steps": STEPS, **more,
    }  # fmt: skip


def errors_of(answer):
    assert answer.status_code == 200
    return answer.context["adminform"].form.errors


def test_a_workflow_is_written_through_its_rules(staff, house):
    answer = staff.post("/admin/workflows/workflow/add/", form(house))

    flow = Workflow.objects.get()
    assert answer.status_code == 302
    assert flow.steps == [{"name": "a", "kind": "run_command", "command": "echo hello"}]
    assert flow.plan.steps == flow.steps


def test_steps_may_be_json(staff, house):
    steps = '[{"name": "a", "kind": "sleep", "seconds": 5}]'

    staff.post("/admin/workflows/workflow/add/", form(house, steps=steps))

    assert Workflow.objects.get().steps[0]["kind"] == "sleep"


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("steps", "- {name: a, kind: run_command, comand: x}", "did you mean"),
        ("steps", "- {name: a, kind: dance}", "must be one of"),
        ("steps", "- {name: a", "line"),
        ("steps", "hello", "list"),
        ("schedule", "0 0 30 2 *", ""),
        ("bot", "nobody", "there is no bot"),
        ("notify", "nobody", "nobody in this house"),
        ("deadline", "soon", "duration such as"),
    ],
)
def test_what_is_wrong_stands_at_its_field(staff, house, field, value, reason):
    answer = staff.post("/admin/workflows/workflow/add/", form(house, **{field: value}))

    assert reason in str(errors_of(answer)[field])
    assert not Workflow.objects.exists()


def test_a_deadline_is_written_as_people_say_it_and_kept_by_an_edit(staff, house):
    staff.post("/admin/workflows/workflow/add/", form(house, deadline="2h"))
    flow = Workflow.objects.get()
    path = f"/admin/workflows/workflow/{flow.pk}/change/"
    shown = staff.get(path).context["adminform"].form.initial["deadline"]

    staff.post(path, form(house, name="New", deadline=shown))

    flow.refresh_from_db()
    assert (flow.name, flow.deadline) == ("New", 7200)


def test_an_edit_keeps_what_runs_in_flight_were_born_with(staff, house):
    flow = factories.workflow(house, factories.gate("ask"), name="Old")
    run = drive.carry(spawn_run(flow).run)
    path = f"/admin/workflows/workflow/{flow.pk}/change/"
    assert "kind: human_gate" in staff.get(path).content.decode()

    answer = staff.post(path, form(house, name="New", schedule="0 6 * * *"))

    assert answer.status_code == 302
    flow.refresh_from_db()
    run.refresh_from_db()
    assert (flow.slug, flow.name, flow.revision) == ("nightly", "New", 2)
    assert flow.next_slot_at is not None
    assert run.plan_id != flow.plan_id


def test_a_saved_form_that_changes_nothing_changes_nothing(staff, house):
    flow = factories.workflow(
        house, factories.command("a", "echo 'x'\necho y"), factories.gate("b")
    )
    path = f"/admin/workflows/workflow/{flow.pk}/change/"
    shown = staff.get(path).context["adminform"].form

    data = {
        name: "" if (value := shown[name].value()) is None else value
        for name in shown.fields
    }
    staff.post(path, data)

    flow.refresh_from_db()
    assert flow.revision == 1


def test_a_deleted_workflow_keeps_its_runs(staff, house):
    flow = factories.workflow(house, factories.gate("ask"))
    run = drive.carry(spawn_run(flow).run)

    staff.post(f"/admin/workflows/workflow/{flow.pk}/delete/", {"post": "yes"})

    flow.refresh_from_db()
    assert flow.deleted_at is not None
    assert Run.objects.get().pk == run.pk
    assert run.state == "waiting"


def test_actions_pause_resume_and_start(staff, house):
    flow = factories.workflow(house, factories.command("a"))

    def act(name):
        data = {"action": name, "_selected_action": [str(flow.pk)]}
        staff.post("/admin/workflows/workflow/", data)
        flow.refresh_from_db()

        return flow.paused

    assert act("pause")
    assert not act("resume")
    act("start")
    assert Run.objects.get().workflow_id == flow.pk


def test_runs_are_cancelled_by_their_own_verb(staff, house):
    flow = factories.workflow(house, factories.gate("ask"))
    run = drive.carry(spawn_run(flow).run)

    data = {"action": "cancel_runs", "_selected_action": [str(run.pk)]}
    page = staff.post("/admin/workflows/run/", data, follow=True).content.decode()

    run.refresh_from_db()
    assert run.state == "cancelled"
    assert "cancelled or being stopped" in page


def test_runs_are_paused_resumed_and_retried_by_their_own_verbs(staff, house):
    flow = factories.workflow(house, factories.gate("ask"))
    run = drive.carry(spawn_run(flow).run)

    def act(name):
        data = {"action": name, "_selected_action": [str(run.pk)]}
        page = staff.post("/admin/workflows/run/", data, follow=True).content.decode()
        run.refresh_from_db()
        return page

    assert "paused." in act("pause_runs")
    assert run.paused_at is not None
    assert "resumed." in act("resume_runs")
    assert "The run is not paused." in act("resume_runs")
    assert "The run has not ended yet" in act("retry_runs")
    act("cancel_runs")
    assert "retried as" in act("retry_runs")
    assert Run.objects.filter(retry_of=run).exists()


READ_ONLY = [
    "threads.thread", "threads.entry", "threads.gate", "threads.turn", "threads.job",
    "threads.pulse", "workflows.run", "workflows.checkpoint", "workflows.attempt",
    "workflows.event", "workflows.slot",
]  # fmt: skip


@pytest.mark.parametrize("model", READ_ONLY)
def test_a_journal_is_read_and_never_edited(staff, house, model):
    flow = factories.workflow(
        house, factories.command("a"), factories.gate("b", "<script>alert(1)</script>")
    )
    drive.carry(spawn_run(flow).run)
    name = model.replace(".", "_")
    rows = apps.get_model(model)._default_manager

    page = staff.get(reverse(f"admin:{name}_changelist"))
    row = rows.first()

    assert page.status_code == 200
    assert b"<script>alert" not in page.content
    assert staff.get(reverse(f"admin:{name}_add")).status_code == 403
    if row is not None:
        path = reverse(f"admin:{name}_change", args=[row.pk])
        shown = staff.get(path)
        assert shown.status_code == 200
        assert b"<script>alert" not in shown.content
        assert staff.post(path, {}).status_code == 403


def test_a_secret_is_set_and_never_shown(staff, house):
    data = {"house": house.pk, "name": "TOKEN", "new_value": "hunter2"}

    staff.post("/admin/threads/secret/add/", data)
    again = staff.post("/admin/threads/secret/add/", {**data, "new_value": "hunter3"})
    assert again.status_code == 302, errors_of(again)

    secret = Secret.objects.get()
    assert tenancy.open_secrets(house.pk, ["TOKEN"]) == {"TOKEN": "hunter3"}
    shown = staff.get("/admin/threads/secret/").content
    assert b"TOKEN" in shown
    assert b"hunter" not in shown
    change = f"/admin/threads/secret/{secret.pk}/change/"
    assert staff.get(change).status_code in {302, 403}
    staff.post(f"/admin/threads/secret/{secret.pk}/delete/", {"post": "yes"})
    assert not Secret.objects.exists()


def test_a_secret_with_an_impossible_name_is_refused_at_the_field(staff, house):
    data = {"house": house.pk, "name": "not a name", "new_value": "x"}

    answer = staff.post("/admin/threads/secret/add/", data)

    assert "letters, digits" in str(errors_of(answer)["name"])


@pytest.mark.parametrize("path", ["house", "member", "bot"])
def test_houses_are_set_up_here(staff, house, path):
    assert staff.get(f"/admin/threads/{path}/").status_code == 200
    assert staff.get(f"/admin/threads/{path}/add/").status_code == 200


def test_the_mirrored_schedules_cannot_be_edited_behind_their_workflows(staff):
    page = staff.get("/admin/").content.decode()

    assert "Periodic" not in page
    assert staff.get("/admin/django_celery_beat/periodictask/").status_code == 404


def test_a_list_of_runs_costs_no_query_for_each(
    staff, house, django_assert_max_num_queries
):
    flow = factories.workflow(house, factories.gate("ask"))
    for _ in range(6):
        drive.carry(spawn_run(flow).run)

    with django_assert_max_num_queries(12):
        staff.get("/admin/workflows/run/")
