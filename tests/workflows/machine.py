"""The engine as a state machine: anybody may do anything, in any order, and die at it.

Workers take work and go on with it late or never; people answer, cancel and edit; time
passes; what has happened is told again. After each the house's promises must hold, and
at the end everything must come to an end.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any
from uuid import UUID

from django.db.models import Q
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from tests import hands
from tests.workflows import drawn
from tests.workflows.promises import Kept
from tests.workflows.stage import Stage, fuse, witness
from threads import gates, questions, services
from threads.exceptions import ThreadError
from threads.locking import locked
from threads.models import Gate, Turn
from threads.runtime import turns
from threads.services import Ending
from workflows import authoring, reconcile, seams, sweep
from workflows import services as workflows
from workflows.engine import advance, claims
from workflows.engine.conductor import Conductor
from workflows.events import emit_event
from workflows.exceptions import WorkflowError
from workflows.journal import Held
from workflows.models import Run, RunThread, Workflow

WORKERS = st.sampled_from(["w1", "w2", "w3"])
PEOPLE = st.sampled_from(["alice", "bob", "carol", "dave"])
WORDS = st.sampled_from(["approve", "no", "left", "well, maybe?", " "])
# Where a process dies, now and then, counted from where it stands.
PLACES = st.sampled_from([None] * 15 + [1, 2, 3, 4, 6])
REFUSED = (ThreadError, WorkflowError)
ROUNDS = 150  # more than any drawn house needs to come to rest
ended = 0  # houses that were driven to their end


def begun(house: House) -> bool:
    return bool(house.stage.some)


class House(RuleBasedStateMachine):
    slugs: Bundle[str] = Bundle("slugs")
    runs: Bundle[UUID] = Bundle("runs")
    held: Bundle[Held] = Bundle("held")
    turns: Bundle[Turn] = Bundle("turns")

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.kept = Kept(self.stage.house)
        self.keys: dict[tuple[str, str], UUID] = {}
        self.strict: dict[str, dict[str, Any]] = {}

    # Recipes and starts.

    @rule(
        target=slugs,
        slug=st.sampled_from(drawn.SLUGS),
        steps=drawn.STEPS,
        overlap=drawn.OVERLAPS,
        deadline=st.sampled_from([None, None, drawn.HOUR]),
        most=st.sampled_from([5, 2]),
    )
    def apply(self, slug, steps, overlap, deadline, most):
        before = self.strict.setdefault(slug, overlap)
        if before != overlap:
            before["loose"] = True  # what has begun stays as many as it was
        more = {**overlap, "max_attempts": most}
        if deadline:
            more["deadline"] = deadline
        more.pop("loose", None)
        authoring.save_workflow(self.stage.house, drawn.recipe(slug, steps, **more))
        return slug

    @rule(
        target=runs,
        slug=slugs,
        key=st.sampled_from(["", "", "k1", "k2"]),
        payload=st.sampled_from([{}, {"n": 1}]),
        dies=PLACES,
    )
    def spawn(self, slug, key, payload, dies):
        flow = self.flow(slug)
        start = workflows.Start(by=self.stage.people["alice"])
        with fuse.lit(dies) as died:
            got = workflows.spawn_run(flow, payload=payload, key=key, start=start)
        if died:
            return multiple()
        self.stage.some = True
        if key:
            assert self.keys.setdefault((slug, key), got.run.pk) == got.run.pk
        if got.joined:
            assert got.run.workflow_id == flow.pk
            assert got.run.state in Run.ACTIVE
        return got.run.pk

    @rule(target=runs, slug=slugs, payload=st.sampled_from([{"n": 1}, {}]))
    def spawn_and_begin(self, slug, payload):
        run = self.spawn(slug, "", payload, None)
        assert isinstance(run, UUID)
        advance.advance(pool="steps", holder=self.stage.worker("w1"), hint=run)
        return run

    @rule(slug=slugs, paused=st.booleans())
    def pause_or_resume(self, slug, paused):
        flow = self.flow(slug)
        act = authoring.pause_workflow if paused else authoring.resume_workflow
        act(flow)

    def flow(self, slug: str) -> Workflow:
        found = self.stage.flow(slug)
        assert found is not None
        return found

    # Workers and the runs they carry.

    @rule(target=held, worker=WORKERS, hint=runs)
    def claim(self, worker, hint):
        found = claims.claim(pool="steps", holder=self.stage.worker(worker), hint=hint)
        return multiple() if found is None else found

    @rule(
        held=consumes(held),
        once=st.booleans(),
        meanwhile=st.sampled_from([None, None, "cancel", "overtake", "pause"]),
        dies=PLACES,
    )
    def carry(self, held, once, meanwhile, dies):
        if not self.stage.is_held(held):
            with witness.of_a_zombie(), self.nothing_changes("it was taken over"):
                advance.carry(held, end=float("inf"))
            return
        if meanwhile:
            witness.meanwhile = getattr(self, f"{meanwhile}_meanwhile")
        with fuse.lit(dies) as died:
            advance.carry(held, end=0 if once else float("inf"))
        witness.meanwhile = None
        if died:
            self.stage.dies(self.named(held.holder))

    def nothing_changes(self, why: str) -> contextlib.AbstractContextManager[None]:
        return self.kept.nothing_changes(why)

    def named(self, holder: int) -> str:
        found = [name for name, pulse in self.stage.workers.items() if pulse == holder]
        return found[0] if found else ""

    def cancel_meanwhile(self, run: UUID) -> None:
        workflows.cancel_run(run, who="bob")

    def overtake_meanwhile(self, run: UUID) -> None:
        self.stage.lease_passes(run)
        assert reconcile.look(run)
        advance.advance(pool="steps", holder=self.stage.worker("fast"), hint=run)

    def pause_meanwhile(self, run: UUID) -> None:
        authoring.pause_workflow(Run.objects.get(pk=run).workflow)

    @rule(worker=WORKERS, hint=runs, dies=PLACES)
    def ticket(self, worker, hint, dies):
        with fuse.lit(dies) as died:
            advance.advance(pool="steps", holder=self.stage.worker(worker), hint=hint)
        if died:
            self.stage.dies(worker)

    @precondition(begun)
    @rule(worker=WORKERS)
    def worker_dies(self, worker):
        self.stage.dies(worker)

    @rule(run=runs, by_another=st.booleans())
    def lease_passes(self, run, by_another):
        """Take what the run's workers hold by time alone, and let another go on."""
        self.stage.lease_passes(run)
        if by_another:
            self.round()
            holder = self.stage.worker("fast")
            advance.advance(pool="steps", holder=holder, hint=run)

    # Bots and their turns.

    @precondition(begun)
    @rule(target=turns, worker=WORKERS)
    def take_turn(self, worker):
        turn = turns.claim(pool="turns", holder=self.stage.worker(worker))
        if turn is None:
            return multiple()
        witness.saw(turn.key, 1000 * turn.attempts + self.tries(turn))
        return turn

    def tries(self, turn: Turn) -> int:
        return Turn.objects.filter(key=turn.key).count()

    @rule(
        turn=turns,
        how=st.sampled_from(["ok", "ok", "failed", "released", "fault", "ask"]),
        dies=PLACES,
    )
    def turn_ends(self, turn, how, dies):
        if not self.stage.is_taken(turn):
            with self.nothing_changes("the turn is not its own any more"):
                assert not self.end_turn(turn, how)
            return
        with fuse.lit(dies) as died:
            assert self.end_turn(turn, how)
        if died:
            self.stage.dies(self.named(turn.holder))

    def end_turn(self, turn: Turn, how: str) -> bool:
        if how == "released":
            return services.release_turn(turn)
        if how == "fault":
            return services.release_turn(turn, seconds=60, fault="overloaded")
        if how == "ask":
            mine = self.stage.is_taken(turn)
            questions.ask_whether(turn)
            return mine
        state = "succeeded" if how == "ok" else "failed"
        reason = "" if how == "ok" else "exited with status 1"
        result = {"output": how, "exit_code": int(how != "ok"), "truncated": 0}
        ending = Ending(state, reason, how, result)
        return services.settle_turn(turn, ending, guard=services.held_by(turn))

    # People.

    @rule(run=runs, who=PEOPLE, words=WORDS, dies=PLACES)
    def speak(self, run, who, words, dies):
        thread = RunThread.objects.get(run=run).thread_id
        with fuse.lit(dies), contextlib.suppress(*REFUSED):
            gates.speak(thread, person=self.stage.people[who], text=words)

    @rule(run=runs, who=PEOPLE, words=WORDS, dies=PLACES)
    def decide(self, run, who, words, dies):
        gate = self.stage.gate(run)
        if gate is None:
            return
        with fuse.lit(dies), contextlib.suppress(*REFUSED):
            gates.decide(
                gate.pk, person=self.stage.people[who], answer=words, door="page"
            )
            assert gate.state == Gate.State.OPEN, "a closed gate took an answer"
            assert who in {"alice", "bob"}

    @rule(run=runs, dies=PLACES)
    def cancel(self, run, dies):
        with fuse.lit(dies), contextlib.suppress(WorkflowError):
            workflows.cancel_run(run, who="bob", reason="enough")

    @rule(target=runs, run=runs, step=st.sampled_from(["", "", "s0", "s1"]))
    def retry(self, run, step):
        row = Run.objects.select_related("workflow").get(pk=run)
        try:
            return workflows.retry_run(row, from_step=step, who="bob").run.pk
        except WorkflowError:
            return multiple()

    @precondition(begun)
    @rule(key=st.sampled_from(["", "k"]), dies=PLACES)
    def emit(self, key, dies):
        with fuse.lit(dies):
            emit_event(self.stage.house, "news", key=key)

    # Time, and those who look after the rest.

    @rule(run=runs)
    def time_passes(self, run):
        self.stage.time_passes(run)

    @rule(run=runs, dies=PLACES)
    def look(self, run, dies):
        with fuse.lit(dies):
            reconcile.look(run)

    @precondition(begun)
    @rule(dies=PLACES)
    def conduct(self, dies):
        with fuse.lit(dies):
            self.round()

    def round(self) -> None:
        conductor = Conductor()
        for part in (
            conductor.wake_sleepers,
            conductor.close_gates,
            conductor.end_turns,
            conductor.stop_overdue,
            conductor.bury_the_dead,
        ):
            part()

    @precondition(begun)
    @rule(dies=PLACES)
    def sweep(self, dies):
        with fuse.lit(dies):
            sweep.sweep()

    @rule(run=runs)
    def tell_again(self, run):
        """Tell once more of every turn and gate of the run that is over."""
        wait = RunThread.objects.get(run=run)
        with (
            self.nothing_changes("it was told before"),
            locked(wait.thread_id) as thread,
        ):
            over = Turn.objects.filter(Q(thread=thread.id) & ~Q(state__in=Turn.ACTIVE))
            for turn in over:
                seams.turn_settled(turn=turn, thread=thread)
            for gate in Gate.objects.filter(thread=thread.id, state="closed"):
                seams.gate_decided(gate=gate, thread=thread)

    # What must hold.

    @invariant()
    def promises_hold(self):
        strict = [
            slug
            for slug, rule in self.strict.items()
            if not rule.get("loose") and rule not in ({}, {"overlap": "allow"})
        ]
        self.kept.check(strict=strict)
        assert self.stage.ears.heard == []

    def teardown(self):
        try:
            if sys.exc_info()[0] is None:
                self.drive_to_the_end()
        finally:
            self.stage.leave()

    def drive_to_the_end(self) -> None:
        global ended
        for slug in self.strict:
            authoring.resume_workflow(self.flow(slug))
        for name in list(self.stage.workers):
            self.stage.dies(name)
        for _ in range(ROUNDS):
            if not (active := self.stage.active()):
                break
            self.help_on(active)
        assert [(r.pk, r.state, r.deferred) for r in self.stage.active()] == []
        self.promises_hold()
        ended += 1

    def help_on(self, active: list[Run]) -> None:
        for run in active:
            self.stage.time_passes(run.pk)
            for name in ("alice", "bob"):
                self.decide_at_last(run.pk, self.stage.people[name])
        self.round()
        sweep.sweep()
        emit_event(self.stage.house, "news", key="k")
        emit_event(self.stage.house, "news")
        holder = self.stage.worker("last")
        advance.advance(pool="steps", holder=holder)
        while (turn := turns.claim(pool="turns", holder=holder)) is not None:
            assert hands.end(turn, output="done")

    def decide_at_last(self, run: UUID, person: Any) -> None:
        gate = self.stage.gate(run)
        if gate is None or gate.state != Gate.State.OPEN:
            return
        word = "left" if gate.kind == Gate.Kind.CHOOSE else "approve"
        with contextlib.suppress(*REFUSED):
            gates.decide(gate.pk, person=person, answer=word, door="page")
