"""A real browser on real pages: nothing inline runs, and a phone answers a question."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import drive, factories
from tests.harness import quiet
from threads import gates, services
from threads.runtime import turns
from workflows.engine import advance
from workflows.services import Start, spawn_run

CHROMIUM = Path(shutil.which("chromium") or "/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--headless",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PHONE = {"width": 390, "height": 844}

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    missing = ""
    if importlib.util.find_spec("playwright") is None:
        missing = "There is no playwright: pip install -e '.[dev]'"
    elif not CHROMIUM.exists():
        missing = "There is no browser: apt-get install chromium"
    if missing:
        (pytest.fail if os.environ.get("REQUIRE_ALL") == "1" else pytest.skip)(missing)
    playwright = importlib.import_module("playwright.sync_api")
    # The driver keeps an event loop on this thread, where Django would see it.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
    else:
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = before


@pytest.fixture
def trouble() -> list[str]:
    """Whatever the browser complained of: errors, refused scripts, dialogs."""
    return []


@pytest.fixture
def page(browser: Any, live_server: Any, client: Any, alice: Any, trouble: Any) -> Any:
    client.force_login(alice)
    context = browser.new_context(viewport=PHONE, base_url=live_server.url)
    cookie = {"name": "sessionid", "value": client.cookies["sessionid"].value}
    context.add_cookies([{**cookie, "url": live_server.url}])
    opened = context.new_page()
    opened.set_default_timeout(10_000)
    opened.on("pageerror", lambda error: trouble.append(f"script: {error}"))
    opened.on("dialog", lambda dialog: (trouble.append("dialog"), dialog.dismiss()))
    opened.on(
        "console",
        lambda line: (
            trouble.append(line.text) if line.type in {"error", "warning"} else None
        ),
    )
    yield opened
    context.close()
    quiet()


@pytest.fixture
def asking(house: Any, bob: Any) -> Any:
    steps = [
        factories.command("build", "seq 1 120"),
        factories.gate("publish", "**Publish** the prices?"),
        factories.command("release", "echo released"),
    ]
    flow = factories.workflow(house, *steps, slug="prices", name="Publish prices")
    return drive.carry(spawn_run(flow, start=Start(by=bob)).run)


def test_a_person_answers_on_a_phone_and_sees_the_run_go_on(page, asking, trouble):
    page.goto("/")
    page.get_by_role("link", name="read the thread").click()
    approve = page.get_by_role("button", name="Approve")
    box = approve.bounding_box()

    assert box["height"] >= 44
    assert box["y"] + box["height"] < PHONE["height"]  # without any scrolling
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"]

    page.get_by_text("Add a comment").click()
    page.get_by_label("Comment").fill("looks fine")
    approve.click()
    page.get_by_text("approve: looks fine").wait_for()
    assert not page.get_by_role("button", name="Approve").is_visible()

    drive.carry(asking)
    page.locator(".chip.completed").first.wait_for()  # by itself, without a reload
    assert page.get_by_text("released", exact=True).is_visible()
    assert trouble == []


def test_a_draft_and_the_place_on_the_page_survive_news(page, asking, bob, trouble):
    page.goto(f"/runs/{asking.pk}/")
    page.get_by_label("Say something in this thread").fill("I was just about to")
    page.evaluate("scrollTo(0, 40)")

    gates.speak(drive.thread_of(asking), person=bob, text="Hm, let me look first")
    page.get_by_text("Hm, let me look first").first.wait_for()

    draft = page.get_by_label("Say something in this thread")
    assert draft.input_value() == "I was just about to"
    assert page.evaluate("scrollY") == 40
    page.reload()
    assert draft.input_value() == "I was just about to"
    assert trouble == []


def test_output_shows_while_a_command_runs_and_drags_no_reader(
    page, house, bob, trouble
):
    steps = [factories.command("build", "seq 1 20"), factories.command("checks")]
    run = spawn_run(factories.workflow(house, *steps), start=Start(by=bob)).run
    for _ in steps:
        advance.advance(pool="steps", holder=drive.holder(), hint=run.pk)
        turn = drive.begun_turn(run)
        if turn.instruction != steps[-1]["command"]:
            turns.work(turn)
    page.goto(f"/runs/{run.pk}/")
    drive.write(turn, *(f"line {number}\n" for number in range(40)))
    page.get_by_text("output so far").wait_for()  # by itself
    page.evaluate("scrollTo(0, 40)")

    ending = services.Ending("failed", "exited with status 1", "that was all")
    services.settle_turn(turn, ending, guard=services.held_by(turn))
    page.get_by_text("that was all").wait_for()

    assert not page.get_by_text("output so far").is_visible()
    assert page.evaluate("scrollY") == 40
    assert trouble == []


def test_long_output_unfolds(page, asking, trouble):
    page.goto(f"/runs/{asking.pk}/")
    whole = page.locator("details.long pre")
    assert not whole.is_visible()

    page.get_by_text("Show all 120 lines").click()

    assert whole.is_visible()
    assert whole.inner_text().splitlines()[0] == "1"
    assert trouble == []


def test_nothing_that_a_command_or_a_person_writes_runs(page, house, alice, trouble):
    hostile = [
        "<img src=x onerror=alert(1)>",
        "<script>alert(2)</script>",
        "</script><svg onload=alert(3)>",
        "[x](javascript:alert(4))",
    ]
    script = "\n".join(f"echo '{words}'" for words in hostile)
    flow = factories.workflow(
        house,
        factories.command("say", script),
        factories.gate("ask", "\n\n".join(hostile)),
        name=hostile[0],
    )
    run = spawn_run(flow, payload={"x": hostile[1]}, start=Start(by=alice)).run
    drive.carry(run)
    gates.speak(drive.thread_of(run), person=alice, text="Hm: " + " ".join(hostile))

    for path in ("/", "/runs/", "/workflows/", f"/runs/{run.pk}/"):
        page.goto(path)
        page.wait_for_load_state("networkidle")
        assert hostile[0] in page.inner_text("main")

    assert page.locator("a[href^=javascript]").count() == 0
    assert trouble == []


def test_a_workflow_is_started_and_cancelled_by_keyboard(page, house, trouble):
    factories.workflow(house, factories.gate("ask"), name="Deploy")
    page.goto("/workflows/")
    page.get_by_role("link", name="Start Deploy").focus()
    page.keyboard.press("Enter")
    page.get_by_label("What the run should know").fill("{}")
    page.keyboard.press("Control+Enter")

    page.get_by_text("Started by alice.").wait_for()
    page.get_by_text("Cancel this run…").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Why?").fill("only a try")
    page.keyboard.press("Enter")

    page.get_by_text("Cancelled by alice: only a try").first.wait_for()
    assert trouble == []
