"""`wf artifacts`: the files that a run's steps left, listed and saved."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from threads import artifacts, phrases
from threads.models import Artifact
from workflows import documents
from workflows.cli import acting
from workflows.cli.commands import Commands, Options
from workflows.cli.output import Out, Refusal, safe

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def add(commands: Commands) -> None:
    parser = commands.add(
        "artifacts", list_or_save, help="list the files that a run keeps, or save them"
    )
    parser.add_argument("run", metavar="RUN", help="its id, or the end of it")
    parser.add_argument("--save", metavar="DIR", help="write them into this folder")


def list_or_save(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"], run=options["run"])
    run = acting.run(who, options["run"])
    found = list(artifacts.of(run.pk))
    told = [documents.artifact_line(file) for file in found]
    if options["save"]:
        for file, line in zip(found, told, strict=True):
            line["saved"] = str(save(file, line, Path(options["save"])))
    if out.as_json:
        out.document(told)
    elif told:
        out.table(["STEP", "FILE", "SIZE", ""], [row(line) for line in told])
    else:
        out.notice(
            "This run keeps no files. A step names them with `artifacts: [glob]`."
        )


def row(line: dict[str, Any]) -> list[Any]:
    again = f" ({line['iteration']})" if line["iteration"] > 1 else ""
    size = phrases.size(line["size"])
    return [line["step"] + again, safe(line["name"]), size, line.get("saved", "")]


def save(file: Artifact, line: dict[str, Any], folder: Path) -> Path:
    """Write a file as FOLDER/STEP/NAME; refuse to replace one, or to follow a link."""
    again = f"-{line['iteration']}" if line["iteration"] > 1 else ""
    parts = [part for part in file.name.split("/") if part not in {"", ".", ".."}]
    path = folder.joinpath(f"{file.step}{again}", *parts)
    try:
        for above in reversed(path.relative_to(folder).parents):
            (folder / above).mkdir(parents=True, exist_ok=True)
            if (folder / above).is_symlink() and folder / above != folder:
                raise Refusal(f"{folder / above} is a link; nothing is written there")
        with (
            artifacts.opened(file) as source,
            os.fdopen(os.open(path, NEW, 0o644), "wb") as into,
        ):
            shutil.copyfileobj(source, into)
    except FileExistsError:
        raise Refusal(
            f"{path} stands there already; save into another folder"
        ) from None
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error.strerror}") from None
    return path
