"""The other demo workflows: each a file one can read, copy and apply."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from uuid import uuid4

from django.conf import settings

from threads import tenancy
from threads.models import House
from workflows import authoring, plan
from workflows.models import Workflow

ADDRESS = "db.demo"
HERE = Path(__file__).parent
FLAKY = """import time


def test_what_always_holds():
    assert 1 + 1 == 2


def test_the_clock():
    # Fails whenever the clock stands in the first third of a tenth of a second.
    assert time.time() * 10 % 1 > 1 / 3
"""
SETTINGS = "[pytest]\naddopts = -p no:cacheprovider -p no:randomly -p no:xdist\n"
REGIONS = ("north", "south", "east", "west")


def install(house: House) -> None:
    """Put the files' workflows in the house; what was there, or was deleted, stays so."""
    lay_out_flaky(settings.SOURCES_DIR / "demo-flaky")
    for folder in settings.QUERY_FOLDERS[:1]:
        place = Path(folder) / "demo.sqlite"
        fill(place)
        if ADDRESS not in tenancy.secret_names(house):
            tenancy.set_secret(house, ADDRESS, f"sqlite:///{place}")
    for path in sorted(HERE.glob("*.yaml")):
        data = plan.load_file(path.read_text())
        if not Workflow.objects.filter(house=house, slug=path.stem).exists():
            authoring.save_workflow(house, data)


def lay_out_flaky(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in (("test_sometimes.py", FLAKY), ("pytest.ini", SETTINGS)):
        write(folder / name, words.encode())


def write(path: Path, data: bytes) -> None:
    """Write a file whole, where it is not there yet."""
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{uuid4().hex}")
    draft.write_bytes(data)
    draft.replace(path)


def fill(place: Path) -> None:
    """Make a small database of orders, the same everywhere."""
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    dice = random.Random(7)  # noqa: S311  figures to read, no secrets
    rows = [
        (number, dice.choice(REGIONS), round(dice.uniform(5, 900), 2))
        for number in range(1, 201)
    ]
    draft = place.with_name(f"{place.name}.{uuid4().hex}")
    link = sqlite3.connect(draft)
    with link:
        link.execute("CREATE TABLE orders (id INTEGER, region TEXT, amount REAL)")
        link.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    link.close()
    draft.replace(place)
