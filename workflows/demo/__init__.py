"""The demo: a nightly check of a real checkout, a copy of our own with one fault in it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings

from threads.models import House
from workflows import authoring
from workflows.models import Workflow

SLUG = "nightly-check"
CHECKOUT = (
    "threads/__init__.py",
    "threads/text.py",
    "threads/replies.py",
    "workflows/__init__.py",
    "workflows/durations.py",
    "workflows/outcomes.py",
    "workflows/steps.py",
    "workflows/templating.py",
    "workflows/words.py",
    "tests/workflows/test_outcomes.py",
    "tests/threads/test_replies.py",
)
FAULTY = "workflows/outcomes.py"
RIGHT = "(1 + jitter)"
WRONG = "(1 - jitter)"
CONFIG = "[pytest]\npythonpath = .\naddopts = -q -p no:cacheprovider -p no:randomly\n"
BEGUN = 'echo "begun $THREADWORK_STEP $THREADWORK_KEY" >> witness'
ENDED = 'echo "ended $THREADWORK_STEP $THREADWORK_KEY" >> witness'
CHECKS = f"{BEGUN}; python -m pytest; status=$?; {ENDED}; exit $status"
RECORD = f"""{BEGUN}
for second in 1 2 3 4 5; do echo "writing the report ($second of 5)"; sleep 1; done
echo "Night of $(date -u +%F): findings read and approved." > report.txt
cat report.txt
{ENDED}"""


def recipe() -> dict[str, Any]:
    return {
        "slug": SLUG,
        "name": "Nightly check",
        "bot": "runner",
        "schedule": "0 6 * * *",
        "steps": [
            {
                "name": "checks",
                "kind": "run_command",
                "command": CHECKS,
                "source": "demo",
                "timeout": "5m",
                "on_error": "continue",
            },
            {
                "name": "investigate",
                "kind": "dispatch_task",
                "when": "on_failure",
                "on_error": "continue",
                "prompt": "These checks failed. Find out why and post what you find."
                "\n\n```\n{{steps.checks.output}}\n```",
            },
            {
                "name": "approve",
                "kind": "human_gate",
                "when": "always",
                "prompt": "The night's checks have run and the findings are above. "
                "Write the report?",
            },
            {"name": "settle", "kind": "sleep", "seconds": 6},
            {"name": "report", "kind": "run_command", "command": RECORD},
        ],
    }


def install(house: House) -> None:
    """Put the checkout among the sources and the workflow in the house, once."""
    lay_out(settings.SOURCES_DIR / "demo")
    if not Workflow.objects.filter(house=house, slug=SLUG).exists():
        authoring.save_workflow(house, recipe())


def lay_out(folder: Path) -> None:
    """Copy the checkout and break one line of it; made aside and renamed."""
    if folder.exists():
        return
    draft = folder.with_name(f"demo.{uuid4().hex}")
    for name in CHECKOUT:
        place = draft / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(settings.BASE_DIR / name, place)
    (draft / "pytest.ini").write_text(CONFIG)
    faulty = draft / FAULTY
    text = faulty.read_text()
    if text.count(RIGHT) != 1:
        raise LookupError(f"{FAULTY} no longer holds the line the demo breaks")
    faulty.write_text(text.replace(RIGHT, WRONG))
    try:
        draft.rename(folder)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)  # another start was first
