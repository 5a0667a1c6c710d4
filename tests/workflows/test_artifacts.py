"""Files that steps keep with their run: listed, downloaded, saved."""

from __future__ import annotations

import asyncio
import csv
import io
import sqlite3
from uuid import uuid4

import pytest
from django.test import AsyncRequestFactory

from tests import drive, factories, hands
from threads import downloads, tenancy
from threads.models import Artifact
from threads.runtime import turns
from workflows import documents
from workflows.services import spawn_run

BUILD = "mkdir dist && echo wheel > dist/a.whl && echo '<script>1</script>' > r.html"


def start(house, script=BUILD, globs=("dist/*.whl", "*.html"), **more):
    step = factories.command("build", script, artifacts=list(globs), **more)
    return drive.carry(spawn_run(factories.workflow(house, step)).run)


def body(answer) -> bytes:
    return b"".join(answer.streaming_content)


def test_what_a_step_names_is_kept_and_told_in_the_thread(house):
    run = start(house)

    (line,) = [words for words in drive.bodies(run) if words.startswith("Kept")]
    assert line == "Kept r.html (19 bytes), dist/a.whl (6 bytes)."
    found = documents.run(run)["artifacts"]
    assert [(file["step"], file["name"], file["size"]) for file in found] == [
        ("build", "dist/a.whl", 6),
        ("build", "r.html", 19),
    ]


def test_what_is_not_there_fails_nothing_and_is_said(house):
    run = start(house, "true", globs=["report/*.xml"])

    assert run.state == "completed"
    assert "Not kept: report/*.xml (nothing there)." in drive.bodies(run)


def test_a_failed_step_keeps_its_files_too(house):
    run = start(house, "echo why > log; exit 3", globs=["log"])

    assert run.state == "failed"
    assert documents.run(run)["artifacts"][0]["name"] == "log"


def test_a_bots_step_keeps_what_it_names(house):
    step = factories.prompt("look", "Look", artifacts=["note"])
    first = factories.command("first", "echo x > note")
    run = drive.carry(spawn_run(factories.workflow(house, first, step)).run)

    assert [file["step"] for file in documents.run(run)["artifacts"]] == ["look"]


def test_each_iteration_keeps_its_own(house):
    run = start(house, "echo $THREADWORK_KEY > log", globs=["log"], repeat={"times": 2})

    found = documents.run(run)["artifacts"]
    assert [file["iteration"] for file in found] == [1, 2]
    assert found[0]["sha256"] != found[1]["sha256"]


def test_a_zombies_files_are_not_recorded(house, monkeypatch):
    step = factories.command("build", BUILD, artifacts=["r.html"])
    run = hands.go_on(spawn_run(factories.workflow(house, step)).run)
    turn = drive.begun_turn(run)
    hands.sql("UPDATE threads_turn SET attempts = attempts + 1")

    turns.work(turn)

    assert Artifact.objects.count() == 0


def test_a_file_is_handed_out_to_be_saved_and_never_to_be_run(client, house, carol):
    file = Artifact.objects.get(origin=start(house).pk, name="r.html")
    client.force_login(carol)

    answer = client.get(f"/artifacts/{file.pk}/")

    assert body(answer) == b"<script>1</script>\n"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="r.html"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer.headers["Content-Length"] == "19"
    assert "no-store" in answer.headers["Cache-Control"]


def test_a_server_of_many_hands_it_out_beside_its_loop(house, monkeypatch):
    file = Artifact.objects.get(origin=start(house).pk, name="dist/a.whl")
    monkeypatch.setattr(downloads, "PIECE", 4)
    answer = downloads.answer(AsyncRequestFactory().get("/"), file)

    async def read() -> list[bytes]:
        pieces = [piece async for piece in answer]
        answer.close()
        return pieces

    assert asyncio.run(read()) == [b"whee", b"l\n"]


@pytest.mark.parametrize("name", ['a"b.txt', "ø 🚀.txt", "x\r\ny.txt"])
def test_no_name_breaks_out_of_its_header(client, house, alice, name):
    start(house)
    Artifact.objects.filter(name="r.html").update(name=name)
    file = Artifact.objects.get(name=name)
    client.force_login(alice)

    answer = client.get(f"/artifacts/{file.pk}/")

    assert body(answer) == b"<script>1</script>\n"
    assert "\n" not in answer.headers["Content-Disposition"]
    assert answer.headers["Content-Disposition"].startswith("attachment")


def test_another_house_finds_no_such_file(client, house, alice, dave):
    file = Artifact.objects.filter(origin=start(house).pk)[0]
    assert client.get(f"/artifacts/{file.pk}/").status_code == 302

    client.force_login(dave)

    assert client.get(f"/artifacts/{file.pk}/").status_code == 404
    assert client.get(f"/artifacts/{uuid4()}/").status_code == 404


def test_a_file_that_is_gone_from_the_disk_is_not_found(client, house, alice, settings):
    file = Artifact.objects.filter(origin=start(house).pk)[0]
    settings.ARTIFACTS = settings.ARTIFACTS / "elsewhere"
    client.force_login(alice)

    assert client.get(f"/artifacts/{file.pk}/").status_code == 404


def test_the_page_of_a_run_leads_to_its_files(client, house, alice):
    run = start(house)
    client.force_login(alice)

    page = client.get(f"/runs/{run.pk}/").content.decode()

    file = Artifact.objects.get(name="r.html")
    assert f'<a href="/artifacts/{file.pk}/" download>r.html</a> 19 bytes' in page
    assert "2 files kept" in page


# The command line


def test_wf_artifacts_lists_and_saves(wf, house, alice, tmp_path):
    run = start(house)
    listed = wf("artifacts", run.pk, "--json").document
    assert [file["name"] for file in listed] == ["dist/a.whl", "r.html"]

    saved = wf("artifacts", run.pk, "--save", tmp_path / "out", "--json").document

    assert (tmp_path / "out/build/dist/a.whl").read_text() == "wheel\n"
    assert [file["saved"] for file in saved][1] == str(tmp_path / "out/build/r.html")
    again = wf("artifacts", run.pk, "--save", tmp_path / "out")
    assert (again.status, "stands there already" in again.stderr) == (1, True)


def test_wf_artifacts_follows_no_link_that_lies_in_wait(wf, house, alice, tmp_path):
    run = start(house)
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "build").symlink_to(tmp_path / "elsewhere")

    refused = wf("artifacts", run.pk, "--save", tmp_path / "out")

    assert (refused.status, "is a link" in refused.stderr) == (1, True)
    assert [*(tmp_path / "elsewhere").iterdir()] == []


def test_wf_artifacts_of_a_run_without_any_says_how_to_get_some(wf, house, alice):
    run = start(house, "true", globs=[])

    assert "artifacts: [glob]" in wf("artifacts", run.pk).stderr


# What a query leaves


@pytest.fixture
def shop(settings, house, tmp_path):
    settings.QUERY_FOLDERS = [str(tmp_path)]
    with sqlite3.connect(tmp_path / "shop.db") as base:
        base.execute("CREATE TABLE t (a, b)")
        base.executemany("INSERT INTO t VALUES (?, ?)", [(n, "=1") for n in range(30)])
    base.close()
    tenancy.set_secret(house, "db.shop", f"sqlite:///{tmp_path / 'shop.db'}")


def queried(house, sql):
    step = {"name": "late", "kind": "query", "database": "shop", "sql": sql}
    return drive.carry(spawn_run(factories.workflow(house, step)).run)


def sheet(client, run) -> list[list[str]]:
    (file,) = documents.run(run)["artifacts"]
    raw = body(client.get(file["url"])).decode()
    return list(csv.reader(io.StringIO(raw, newline="")))


def test_a_query_leaves_all_its_rows_as_a_file(client, house, alice, shop, settings):
    settings.QUERY_ROWS = 10
    client.force_login(alice)

    run = queried(house, "SELECT a, b FROM t ORDER BY a")

    lines = sheet(client, run)
    assert (lines[0], lines[1], len(lines)) == (["a", "b"], ["0", "'=1"], 31)
    told = drive.bodies(run)
    assert any(words.startswith("Kept late.csv (") for words in told)
    assert any("The first 10 are kept in the result." in words for words in told)
    assert documents.run(run)["steps"][0]["result"]["truncated"] == 20


def test_a_file_that_holds_a_part_says_so_by_its_name(house, shop, settings):
    settings.QUERY_FILE_LIMIT = 50

    run = queried(house, "SELECT a, b FROM t")

    assert documents.run(run)["artifacts"][0]["name"] == "late-part.csv"


def test_a_query_without_rows_leaves_no_file(house, shop):
    assert documents.run(queried(house, "SELECT a FROM t WHERE 0"))["artifacts"] == []
