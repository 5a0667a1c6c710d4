"""The process of one query: an order in, sealed, and an answer out, as a file.

A thread reads; the first one watches its time and is there when it is told to end. It
knows nothing of Django, so that it begins soon, and it never says what it was told.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from threads import phrases
from threads.runtime import letters
from threads.runtime.queries.files import FILE
from threads.runtime.queries.order import Order, QueryFailed, as_failure
from threads.runtime.queries.reading import Reading

LEAVE_SECONDS = 3.0  # for the database to end what it was asked to end


class Errand:
    """One order, read in a thread of its own."""

    def __init__(self, order: Order, folder: Path) -> None:
        self.order, self.folder = order, folder
        self.done, self.told = threading.Event(), threading.Event()
        self.answer: dict[str, Any] | None = None
        self.reading: Reading | None = None

    def read(self) -> None:
        try:
            self.answer = self.rows()
        except QueryFailed as error:
            self.answer = as_failure(error)
        except MemoryError:
            self.answer = as_failure(QueryFailed(phrases.QUERY_MEMORY))
        self.done.set()
        self.told.set()

    def rows(self) -> dict[str, Any]:
        if not self.order.caps.file:
            return self.read_into(None)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(self.folder / FILE, flags, 0o600), "wb") as file:
            answer = self.read_into(file)
            file.flush()
            os.fsync(file.fileno())
            return answer

    def read_into(self, file: Any) -> dict[str, Any]:
        self.reading = Reading(self.order, file)
        return self.reading.read().as_answer()

    def stop(self, *args: object) -> None:
        """Be told to end, by a signal: nobody waits for an answer any more."""
        self.told.set()

    def run(self) -> dict[str, Any] | None:
        """Return the answer; None where it was told to end before there was one."""
        signal.signal(signal.SIGTERM, self.stop)
        threading.Thread(target=self.read, daemon=True).start()
        in_time = self.told.wait(self.order.seconds)
        if not self.done.is_set():
            if self.reading is not None:
                self.reading.stop()
            self.done.wait(LEAVE_SECONDS)
            if in_time:
                return None
            return as_failure(self.order.too_late())
        return self.answer


def main(number: int, folder: Path) -> None:
    with os.fdopen(number, "rb") as sealed:
        raw = sealed.read().rstrip(b"\0").decode()
    letters.begin(folder)
    answer = Errand(Order.load(raw), folder).run()
    if answer is not None:
        letters.write(folder / letters.ANSWER, answer)
    # No driver is left time to read a billion rows to their end before it closes.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
