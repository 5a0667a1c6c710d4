from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests import drive, factories
from tests.hands import go_on
from threads import gates
from workflows.services import spawn_run

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_answer_takes_few_statements(house, alice):
    flow = factories.workflow(house, factories.gate(), factories.sleep("rest", 5))
    run = go_on(spawn_run(flow).run)
    gate = drive.open_gate(run)

    with CaptureQueriesContext(
        connection,
    ) as sent:
        gates.decide(gate.pk, person=alice, answer="approve", door="page")

    assert len(sent) <= 12


def test_a_reply_takes_few_statements(house, alice):
    flow = factories.workflow(house, factories.gate(), factories.sleep("rest", 5))
    run = go_on(spawn_run(flow).run)

    thread = drive.thread_of(run)
    with CaptureQueriesContext(connection) as sent:
        gates.speak(thread, person=alice, text="yes")

    assert len(sent) <= 11
