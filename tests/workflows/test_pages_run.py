from __future__ import annotations

import re
from datetime import timedelta
from unittest import mock
from uuid import uuid4

import pytest
from django.db import OperationalError

from tests import drive, factories
from threads import gates, questions, services
from threads.models import Entry, Gate
from workflows.engine import advance
from workflows.models import Run
from workflows.services import Start, cancel_run, spawn_run

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "http://a/</a><b>x</b>",
    "[x](javascript:alert(1))",
    '"><script>alert(2)</script>',
    "</script>",
]


def started(house, *steps, by=None, **more):
    flow = factories.workflow(house, *steps, name="Ship it", **more)
    run = spawn_run(flow, start=Start(by=by)).run
    return drive.carry(run)


@pytest.fixture
def asking(house, bob):
    return started(house, factories.gate("ship", "Ship **now**?"), by=bob)


def page_of(client, run):
    answer = client.get(f"/runs/{run.pk}/")
    assert answer.status_code == 200
    return answer.content.decode()


def decide(client, run, answer, **more):
    gate = more.pop("gate", None) or drive.open_gate(run).pk
    data = {"gate": gate, "answer": answer, **more}
    return client.post(f"/runs/{run.pk}/decide/", data)


def test_a_question_is_answered_by_its_button(client, asking, alice):
    client.force_login(alice)
    page = page_of(client, asking)
    assert "Ship <strong>now</strong>?" in page
    assert 'value="approve"' in page

    answer = decide(client, asking, "approve", comment="looks fine")

    assert answer.url == f"/runs/{asking.pk}/"
    assert drive.carry(asking).state == "completed"
    page = page_of(client, asking)
    assert "approve: looks fine" in page
    assert 'value="approve"' not in page


def test_a_question_is_answered_by_speaking(client, asking, alice):
    client.force_login(alice)

    client.post(f"/runs/{asking.pk}/reply/", {"text": "👍"})

    assert drive.carry(asking).state == "completed"
    assert "Understood as approved by alice." in page_of(client, asking)


def test_an_unclear_reply_stands_and_the_question_stays(client, asking, alice):
    client.force_login(alice)

    client.post(f"/runs/{asking.pk}/reply/", {"text": "maybe, if it works"})

    page = page_of(client, asking)
    assert "could mean either" in page
    assert 'value="approve"' in page


def test_each_kind_of_question_has_its_own_buttons(client, house, alice):
    client.force_login(alice)
    choose = factories.gate(answer="choose", choices=["North", "So & uth"])
    reply = factories.gate(answer="reply")
    seen = factories.gate(answer="acknowledge")

    pages = [
        page_of(client, started(house, step, slug=f"s{number}"))
        for number, step in enumerate([choose, reply, seen])
    ]

    assert 'value="So &amp; uth"' in pages[0]
    assert 'name="answer" rows="3"' in pages[1]
    assert 'id="reply"' not in pages[1]  # the answer's box is the only one
    assert 'value="acknowledge"' in pages[2]


def test_a_closed_question_says_who_answered_and_when(client, asking, alice, bob):
    gate = drive.open_gate(asking).pk
    gates.decide(gate, person=bob, answer="approve", door="page")
    client.force_login(alice)

    answer = decide(client, asking, "reject", gate=gate)

    assert answer.status_code == 409
    assert "This question was approved by bob at" in answer.content.decode()


def test_a_question_for_somebody_else_has_no_buttons(client, house, alice, bob):
    run = started(house, factories.gate(who=["alice"]))
    client.force_login(bob)

    page = page_of(client, run)
    answer = decide(client, run, "approve")

    assert "This question is for alice." in page
    assert 'value="approve"' not in page
    assert answer.status_code == 403
    assert drive.open_gate(run).state == "open"


def test_an_impossible_answer_is_refused_and_what_was_typed_is_kept(
    client, asking, alice
):
    client.force_login(alice)

    answer = decide(client, asking, "perhaps", comment="my own words")

    assert answer.status_code == 422
    assert "is not an answer here" in answer.content.decode()
    assert "my own words</textarea>" in answer.content.decode()


def test_words_that_cannot_be_kept_are_refused_by_field(client, asking, alice):
    client.force_login(alice)

    spoken = client.post(f"/runs/{asking.pk}/reply/", {"text": "a\0b"})
    decided = decide(client, asking, "approve", comment="a\0b")
    nothing = client.post(f"/runs/{asking.pk}/decide/", {"gate": "no", "answer": "x"})

    assert spoken.status_code == decided.status_code == nothing.status_code == 422
    assert "text: holds a NUL character" in spoken.content.decode()
    assert "comment: holds a NUL character" in decided.content.decode()


def test_a_stranger_finds_nothing(client, asking, dave):
    client.force_login(dave)

    for path in ("", "body/"):
        assert client.get(f"/runs/{asking.pk}/{path}").status_code == 404
    for verb in ("decide", "reply", "cancel", "retry", "again"):
        answer = client.post(f"/runs/{asking.pk}/{verb}/", {"text": "yes"})
        assert answer.status_code == 404
        assert client.post(f"/runs/{uuid4()}/{verb}/").content == answer.content
    assert drive.open_gate(asking).state == "open"


def test_a_viewer_reads_and_presses_nothing(client, asking, carol):
    client.force_login(carol)

    page = page_of(client, asking)

    assert "A viewer can read here" in page
    assert "<button" not in page.split("<main")[1]
    assert decide(client, asking, "approve").status_code == 403
    for verb in ("reply", "cancel", "retry", "again"):
        answer = client.post(f"/runs/{asking.pk}/{verb}/", {"text": "yes"})
        assert answer.status_code == 403
    assert Run.objects.count() == 1
    assert drive.open_gate(asking).state == "open"


def test_looking_changes_nothing(client, asking, alice):
    client.force_login(alice)
    before = (Entry.objects.count(), Run.objects.values().get(), Gate.objects.count())

    for path in ("decide", "reply", "cancel", "retry", "again"):
        assert client.get(f"/runs/{asking.pk}/{path}/").status_code == 405
    page_of(client, asking)

    after = (Entry.objects.count(), Run.objects.values().get(), Gate.objects.count())
    assert after == before


def test_a_run_is_cancelled_with_a_reason(client, asking, bob):
    client.force_login(bob)

    client.post(f"/runs/{asking.pk}/cancel/", {"text": "wrong branch"})

    page = page_of(client, asking)
    assert "Cancelled by bob: wrong branch" in page
    assert "Start again" in page


def test_cancelling_what_has_ended_says_how_it_ended(client, asking, bob):
    cancel_run(asking.pk, by=bob)
    client.force_login(bob)

    answer = client.post(f"/runs/{asking.pk}/cancel/")

    assert answer.status_code == 409
    assert "Cancelled at" in answer.content.decode()


def test_a_failed_run_says_why_and_what_can_be_done(client, house, alice):
    run = started(
        house, factories.command("fetch"), factories.command("check", "exit 3")
    )
    client.force_login(alice)

    page = page_of(client, run)

    assert "Failed at “check”:" in page
    assert "exited with status 3" in page
    assert "Done before that: fetch." in page
    assert "keeps what is done (fetch)" in page
    assert "runner failed: exited with status 3" in page
    assert "dispatch." not in page


def test_a_retry_and_a_new_start_are_runs_of_their_own(client, house, alice):
    run = started(house, factories.command("a"), factories.command("b", "exit 1"))
    client.force_login(alice)

    retry = client.post(f"/runs/{run.pk}/retry/").url
    again = client.post(f"/runs/{run.pk}/again/").url

    assert len({retry, again, f"/runs/{run.pk}/"}) == 3
    assert "Kept from it: a." in client.get(retry).content.decode()
    assert Run.objects.filter(retry_of=run).count() == 1


def test_a_failed_run_and_its_retry_lead_to_each_other(client, house, alice):
    run = started(house, factories.command("a"), factories.command("b", "exit 1"))
    client.force_login(alice)
    before = page_of(client, run)
    retry = Run.objects.get(
        pk=client.post(f"/runs/{run.pk}/retry/").url.split("/")[2],
    )

    under_way, other = page_of(client, run), page_of(client, retry)
    drive.carry(retry)
    failed_too = page_of(client, run)

    assert "Retried as" not in before
    assert f'<a href="/runs/{retry.pk}/">{retry.pk.hex[-8:]}</a>' in under_way
    assert under_way.index("Start again") < under_way.index("Retry once more")
    assert f'href="/runs/{run.pk}/" title="{run.pk}">{run.pk.hex[-8:]}</a>.' in other
    assert failed_too.index("Retry</button>") < failed_too.index("Start again")


def test_a_retry_of_what_still_runs_is_refused(client, asking, alice):
    client.force_login(alice)

    answer = client.post(f"/runs/{asking.pk}/retry/")

    assert answer.status_code == 409
    assert "has not ended yet" in answer.content.decode()


def test_long_output_is_folded_behind_its_end(client, house, alice):
    run = started(house, factories.command("count", "seq 1 300"))
    client.force_login(alice)

    page = page_of(client, run)

    assert "Show all 300 lines" in page
    assert "\n300</pre>" in page.split('class="output part"')[1]


def test_markup_shows_as_typed_wherever_it_comes_from(client, house, alice):
    script = "\n".join(f"echo '{words}'" for words in HOSTILE)
    flow = factories.workflow(
        house,
        factories.command("say", script),
        factories.gate("ask", " ".join(HOSTILE)),
        name=HOSTILE[0],
    )
    run = spawn_run(flow, payload={"x": HOSTILE[3]}, start=Start(by=alice)).run
    drive.carry(run)
    gates.speak(drive.thread_of(run), person=alice, text="Hm, " + HOSTILE[2])
    cancel_run(run.pk, by=alice, reason=HOSTILE[3])
    client.force_login(alice)

    for path in (f"/runs/{run.pk}/", "/runs/", "/", "/workflows/"):
        page = client.get(path).content.decode()

        assert "<img src=x" not in page
        assert "<script>alert" not in page
        assert "<b>x</b>" not in page
        assert 'href="javascript' not in page
        assert "&lt;img src=x onerror=alert(1)&gt;" in page


def test_the_part_that_asks_again_is_silent_until_something_changed(
    client, asking, alice
):
    client.force_login(alice)
    page = page_of(client, asking)
    path = page.split('hx-get="')[1].split('"')[0].replace("&amp;", "&")
    assert path.startswith(f"/runs/{asking.pk}/body/?seen=")
    assert "every 2s" in page

    assert client.get(path).status_code == 204
    decide(client, asking, "approve")
    drive.carry(asking)
    changed = client.get(path)

    assert changed.status_code == 200
    assert b"<html" not in changed.content
    assert b"every 60s" in changed.content
    assert b"Completed." in changed.content


def test_a_page_mends_a_run_whose_wait_was_lost(client, asking, alice):
    client.force_login(alice)

    with mock.patch("workflows.services.look", return_value=True) as look:
        page_of(client, asking)

    look.assert_called_once_with(asking.pk)


def test_a_page_left_open_posts_no_tickets(client, house, alice, posted):
    flow = factories.workflow(house, factories.gate())
    run = spawn_run(flow).run
    Run.objects.filter(pk=run.pk).update(ready_at=run.created_at - timedelta(hours=1))
    client.force_login(alice)
    page_of(client, run)
    posted.clear()

    for _ in range(5):
        assert client.get(f"/runs/{run.pk}/body/").status_code == 200

    assert posted == []


def test_an_absent_database_is_said_in_words(client, asking, alice):
    client.force_login(alice)

    with mock.patch("workflows.services.look", side_effect=OperationalError("gone")):
        answer = client.get(f"/runs/{asking.pk}/")

    assert answer.status_code == 503
    assert "The database does not answer" in answer.content.decode()


def test_a_longer_thread_costs_no_further_query(
    client, house, alice, django_assert_max_num_queries
):
    short = started(house, factories.command("a"), slug="short")
    steps = [factories.command(f"s{number}") for number in range(8)]
    long = started(house, *steps, factories.gate("ask"), slug="long")
    client.force_login(alice)

    with django_assert_max_num_queries(24):
        page_of(client, short)
    with django_assert_max_num_queries(26):
        page_of(client, long)


def test_what_a_command_writes_shows_while_it_runs_and_goes_when_it_ends(
    client, house, alice
):
    flow = factories.workflow(house, factories.command("checks", "make test"))
    run = spawn_run(flow).run
    advance.advance(pool="steps", holder=drive.holder(), hint=run.pk)
    client.force_login(alice)
    assert "is working on" not in page_of(client, run)
    turn = drive.begun_turn(run)
    assert "is working on “checks”</span>" in page_of(client, run)
    drive.write(turn, *(f"line {number}\n" for number in range(50)))
    drive.write(turn, "10%\r20%\r", "30%\r<b>\x1b[31mred\x1b[0m")

    page = page_of(client, run)
    ending = services.Ending("succeeded", "", "all of it", {"output": "all of it"})
    services.settle_turn(turn, ending, guard=services.held_by(turn))
    after = page_of(client, run)

    assert "is working on “checks” · output so far" in page
    assert "line 49\n&lt;b&gt;red</pre>" in page
    assert "line 20\n" not in page
    assert "line 21\n" in page
    assert "is working on" not in after
    assert "all of it" in after


def test_new_output_is_news_of_the_live_block_alone(client, house, alice):
    flow = factories.workflow(house, factories.command("checks", "make test"))
    run = spawn_run(flow).run
    advance.advance(pool="steps", holder=drive.holder(), hint=run.pk)
    client.force_login(alice)
    turn = drive.begun_turn(run)
    path, before = poll_of(page_of(client, run))
    assert client.get(path).status_code == 204

    drive.write(turn, "a line\n")
    _, after = poll_of(client.get(path).content.decode())

    changed = {part for part in before if before[part] != after[part]}
    assert changed == {"run-poll", "run-live"}


def test_a_question_whether_to_run_a_command_again_shows_the_command(
    client, house, alice
):
    flow = factories.workflow(house, factories.command("pay", "pay *all* <b>"))
    run = spawn_run(flow).run
    advance.advance(pool="steps", holder=drive.holder(), hint=run.pk)
    questions.ask_whether(drive.begun_turn(run))
    client.force_login(alice)

    page = page_of(client, run)

    asks = '<pre class="command">pay *all* &lt;b&gt;</pre>'
    assert page.count(asks) == 3  # what was asked, the question, and its entry
    assert "<strong>System</strong> asks" in page


def poll_of(page):
    """Return the address that the page asks again, and the marks of its parts."""
    path = page.split('hx-get="')[1].split('"')[0].replace("&amp;", "&")
    parts = re.findall(r'id="([\w-]+)" data-part data-seen="(\w*)"', page)
    return path, dict(parts)
