"""Play the demo from the terminal: start, spawn, follow, kill, answer, prove."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from project import local
from project.embedded import folder, waiting

WORKFLOW = "nightly-check"
VICTIMS = ("conductor", "worker-steps", "worker-turns", "worker-jobs")
START_SECONDS = 60
PLAY_SECONDS = 110
KILLS = 3
LOOK_SECONDS = 0.7
ENDED = frozenset(["completed", "failed", "cancelled"])


class PlayFailed(Exception):
    """The demo did not go as it should."""


@dataclass
class Play:
    """One performance on a data folder of its own."""

    data: Path
    say: Any
    shown: int = 0
    kills: list[str] = field(default_factory=list)
    up: subprocess.Popen[bytes] | None = None

    def perform(self) -> None:
        """Play to the end; raise PlayFailed where a promise does not hold."""
        try:
            self.start()
            run = self.wf("spawn", WORKFLOW)["id"]
            self.say(f"\nStarted {WORKFLOW}: run {run}\n")
            document = self.follow(run)
            self.prove(document)
        finally:
            self.end()

    def start(self) -> None:
        self.say("Starting everything on this machine (first time: half a minute) …")
        self.data.mkdir(parents=True, exist_ok=True)
        argv = ["manage.py", "up", "--data", str(self.data), "--port", "0"]
        with (self.data / "demo.log").open("ab") as log:
            self.up = subprocess.Popen(
                [sys.executable, *argv],
                cwd=local.BASE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if not waiting.until(self.ready, seconds=START_SECONDS):
            raise PlayFailed(
                f"it did not start in {START_SECONDS} s; see {self.data}/demo.log"
            )

    def ready(self) -> bool:
        if self.up is not None and self.up.poll() is not None:
            raise PlayFailed(f"`manage.py up` ended; see {self.data}/demo.log")
        running = folder.running(self.data)
        if running is None or not all(running.processes.get(v) for v in VICTIMS):
            return False
        return bool(self.wf("runs")["conductor"]["alive"])

    def wf(self, *words: str) -> Any:
        """Run a `wf` command with --json and return its document."""
        done = subprocess.run(
            [sys.executable, "manage.py", "wf", *words, "--json"],
            cwd=local.BASE_DIR,
            env={**os.environ, "THREADWORK_DATA": str(self.data)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise PlayFailed(f"wf {' '.join(words)}: {done.stderr.strip()[-500:]}")
        return json.loads(done.stdout)

    def follow(self, run: str) -> dict[str, Any]:
        """Show the thread as it grows; kill and answer at the marked places."""
        last: dict[str, Any] = {}

        def ended() -> bool:
            waiting.until(lambda: False, seconds=LOOK_SECONDS)  # leave the cores to it
            last.update(self.wf("show", run))
            self.show(last)
            self.act(run, last)
            return last["state"] in ENDED

        if not waiting.until(ended, seconds=PLAY_SECONDS):
            raise PlayFailed(f"the run is still {last.get('state')}")
        return last

    def show(self, document: dict[str, Any]) -> None:
        for entry in document["thread"]["entries"]:
            if entry["number"] > self.shown:
                self.shown = entry["number"]
                self.say(line(entry))

    def act(self, run: str, document: dict[str, Any]) -> None:
        if document["state"] == "sleeping":
            self.kill("asleep")
        waits = document["waiting_for"] or {}
        if waits.get("kind") == "gate":
            self.kill("at the question")
            self.say("  … answering from the terminal: 👍\n")
            self.wf("reply", run, "👍")
        if self.in_command(run, "report"):
            self.kill("in the middle of the command “report”")

    def in_command(self, run: str, step: str) -> bool:
        said = [said for said, name, _ in self.lines(run) if name == step]
        return "begun" in said and "ended" not in said

    def lines(self, run: str) -> Iterator[tuple[str, str, str]]:
        """Yield what the commands themselves wrote down: begun or ended, step, key."""
        witness = self.data / "workspaces" / run / "work" / "witness"
        if witness.exists():
            for text in witness.read_text().splitlines():
                said, name, key = text.split(" ", 2)
                yield said, name, key

    def kill(self, where: str) -> None:
        """SIGKILL all workers and the conductor, once for each place."""
        if where in self.kills:
            return
        self.kills.append(where)
        running = folder.running(self.data)
        victims = running.processes if running else {}
        for name in VICTIMS:
            if pid := victims.get(name):
                kill_family(pid)
        self.say(f"  ✗ killed the conductor and all workers (SIGKILL), {where}\n")

    def prove(self, document: dict[str, Any]) -> None:
        self.say("\nThe finished thread:\n")
        for entry in document["thread"]["entries"]:
            self.say(line(entry))
        self.prove_once(document)
        if document["state"] != "completed" or len(self.kills) < KILLS:
            raise PlayFailed(f"{document['state']} after {len(self.kills)} kills")
        prove_findings({step["name"]: step for step in document["steps"]})
        numbers = [entry["number"] for entry in document["thread"]["entries"]]
        if numbers != list(range(1, len(numbers) + 1)):
            raise PlayFailed(f"the thread has a gap: {numbers}")
        self.say(
            f"\nKilled {len(self.kills)} times ({', '.join(self.kills)}); "
            "every finished step ran once and the thread has no gap."
        )

    def prove_once(self, document: dict[str, Any]) -> None:
        self.say("The proof, written by the commands themselves:\n")
        ends: dict[str, int] = {}
        for said, name, _ in self.lines(document["id"]):
            if said == "ended":
                ends[name] = ends.get(name, 0) + 1
        for step in document["steps"]:
            if step["kind"] == "run_command":
                count = ends.get(step["name"], 0)
                self.say(f"  {step['name']}: finished {count} time(s)")
                if count != 1:
                    raise PlayFailed(f"{step['name']} finished {count} times, not once")

    def end(self) -> None:
        if self.up is not None and self.up.poll() is None:
            self.up.send_signal(signal.SIGINT)
            try:
                self.up.wait(30)
            except subprocess.TimeoutExpired:
                kill_family(self.up.pid)


def prove_findings(steps: dict[str, Any]) -> None:
    """Check that the checks failed and that the bot found what failed in them."""
    checks, found = steps["checks"], steps["investigate"]["result"] or {}
    named = (found.get("result") or {}).get("test") or "no test"
    if checks["state"] != "failed" or named not in checks["result"]["output"]:
        raise PlayFailed(f"the checks are {checks['state']}; the bot names {named}")
    evidence = [
        line for line in checks["result"]["output"].splitlines() if line[:2] == "E "
    ]
    if not found["result"]["reproduced"] or evidence[0] not in found["output"]:
        raise PlayFailed("the bot's findings do not show what failed")


def kill_family(pid: int) -> None:
    """SIGKILL a process and its children, so that nobody can tidy up."""
    try:
        process = psutil.Process(pid)
        for each in [*process.children(recursive=True), process]:
            each.kill()
    except psutil.NoSuchProcess:
        return


MARKS = {"instruction": "→", "message": " ", "answer": "★", "signal": "·", "note": "·"}


def line(entry: dict[str, Any]) -> str:
    """Return an entry as the terminal shows it."""
    body = entry["body"].rstrip("\n").replace("\n", "\n      ")
    mark = MARKS.get(entry["kind"], " ")
    return f"{entry['number']:>3} {mark} {entry['author']['name']}: {body}"
