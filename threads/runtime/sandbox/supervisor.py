"""Where the fork server starts: by path, isolated, with the standard library alone."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

# The packages above the supervision hold Django's side of the house. Here they are
# names to find it under, and nothing of them is run.
OUTER = ("threads", "threads.runtime", "threads.runtime.sandbox")


def main(worker_pid: int) -> None:
    here = Path(__file__).resolve().parent
    for name, folder in zip(OUTER, (here.parents[1], here.parent, here), strict=True):
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    server = importlib.import_module("threads.runtime.sandbox.supervision.server")
    server.serve(worker_pid)


if __name__ == "__main__":
    main(int(sys.argv[1]))
