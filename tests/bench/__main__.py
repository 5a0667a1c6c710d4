"""`make bench`: our own servers, real worker processes, a table and JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command

from project.embedded import postgres, valkey
from tests.bench.hands import CALLS

IDS = ("P1", "P2", "P3", "P4", "P5", "P6", "P7")
USUAL = [name for name in IDS if name != "P6"]  # P6 takes minutes: by its name
LIMIT = 1800  # seconds; then the bench ends itself and what it started
QUICK = 0.1


def main() -> int:
    asked = arguments()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    with stack() as made:
        figures: Any = importlib.import_module("tests.bench.figures")
        share = QUICK if asked.quick else 1.0
        found = figures.measure(made, asked.only, share=share, peers=asked.peers)
    say(table(found))
    document = json.dumps(as_document(found, quick=asked.quick))
    if asked.json:
        Path(asked.json).write_text(document + "\n")
    else:
        say(document)
    return 0 if all(figure.holds() for figure in found) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", type=ids, default=USUAL, metavar="P1,P2")
    parser.add_argument(
        "--peers", action="store_true", help="install the peers and play beside them"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--json", metavar="FILE", help="instead of the last line")
    return parser.parse_args()


def ids(words: str) -> list[str]:
    found = words.upper().split(",")
    if unknown := [word for word in found if word not in IDS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(IDS)}")
    return found


def stop(number: int, frame: object) -> None:
    sys.exit(f"The bench ends on {signal.Signals(number).name}.")


@contextmanager
def stack() -> Iterator[Any]:
    """Start servers in a folder of their own and set Django up on them."""
    base = Path(tempfile.mkdtemp(prefix="tw-bench-"))
    base.chmod(0o755)  # commands run as users of their own
    server = None
    try:
        server = postgres.start(base / "postgres")
        broker = valkey.start(base / "broker")
        os.environ |= environment(base, server.url, broker.url)
        django.setup()
        call_command("migrate", verbosity=0)
        harness: Any = importlib.import_module("tests.harness")
        made = harness.Stack(base, CALLS=CALLS, SANDBOX=os.environ["SANDBOX"])
        try:
            yield made
        finally:
            made.down()
    finally:
        if server is not None:
            postgres.stop(server)
        shutil.rmtree(base, ignore_errors=True)


def environment(base: Path, database: str, broker: str) -> dict[str, str]:
    return {
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "DATABASE_URL": database,
        "BROKER_URL": broker,
        "THREADWORK_DATA": str(base),
        "SECRET_KEY": "bench",
        "CALLS": CALLS,
        "SANDBOX": os.environ.get("SANDBOX", "auto"),
        "LOG_LEVEL": "WARNING",
    }


def table(figures: list[Any]) -> str:
    width = max(len(figure.id) for figure in figures)
    lines = []
    for figure in figures:
        values = "  ".join(f"{name} {value}" for name, value in figure.values.items())
        once = f"{figure.completed}/{figure.expected} steps"
        lines.append(f"{figure.id:<{width}}  {once}  {values}")
        if not figure.holds():
            lines.append(f"{'':<{width}}  FAILED: {figure.repeated} ran again")
        lines += [f"{'':<{width}}  {note}" for note in figure.notes]
    return "\n".join(lines)


def as_document(figures: list[Any], *, quick: bool) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "load": list(os.getloadavg()),
        "quick": quick,
        "figures": [vars(figure) for figure in figures],
    }


def say(words: str) -> None:
    sys.stdout.write(words + "\n")


if __name__ == "__main__":
    sys.exit(main())
