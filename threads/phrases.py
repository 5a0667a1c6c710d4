"""Every sentence System says to people about threads, gates and turns."""

from __future__ import annotations

STARTED = "dispatch.started"
COMPLETED = "dispatch.completed"
FAILED = "dispatch.failed"
CANCELLED = "dispatch.cancelled"

NO_OUTPUT = "(no output)"
WORKER_DIED = "the worker died {count} times while running it"
TURN_TOO_LONG = "it took longer than {limit}"
STOPPED = "it was stopped"
CUT_OFF = "it was cut off before it ended"
EXIT_STATUS = "exited with status {status}"
KILLED = "it was killed by signal {signal}"
TOO_MANY_CALLS = "it used tools more than 100 times without an answer; run such work in the background"
SCRIPTED_INTRO = "I am the scripted stand-in for a model: I follow a fixed plan, the evidence is real."
REPRODUCED = (
    "**`{test}` fails again when it runs alone**, so it is not a matter of order."
)
NOT_REPRODUCED = "`{test}` passes when it runs alone; something before it matters."
HEARD_YOU = "You said meanwhile: {text}"
NO_RUNTIME = "no worker here knows “{runtime}” yet"
NO_ROOT = "its files lie under the workspace root {root}, which no worker here sees"
INTERRUPTED = (
    "the worker died while it ran and nothing says how it ended; "
    "the step asks not to be run again"
)
INTERRUPTED_REFUSED = "it was interrupted and nobody wanted it run again"
LAST_OWNER = "{house} would have no owner; make somebody else owner first."
RUN_AGAIN = (
    "This was interrupted while it ran, and nothing says how it ended. Run it again?\n\n"
    "{instruction}"
)
UNCLEAR = (
    "“{text}” could mean either, so the question stays open. "
    "Say yes or no, or press a button."
)
EMPTY_ANSWER = "An answer needs some words."
UNDERSTOOD = "Understood as {outcome} by {name}."
MORE_ANSWERS = "{have} of {want} approvals; waiting for {left} more."
EXPIRED = {
    "fail": "Nobody answered in time, so the step fails.",
    "approve": "Nobody answered in time, so it counts as approved.",
    "reject": "Nobody answered in time, so it counts as rejected.",
    "skip": "Nobody answered in time, so the step is skipped.",
}
LATE = " (after the deadline)"
ALREADY_CLOSED = "This question was {outcome} by {name} at {at}."
WITHDRAWN = "This question was withdrawn at {at}."
NOT_FOR_YOU = "This question is for {who}."
NOT_THE_STARTER = "Whoever started this run cannot answer it: somebody else has to."
VIEWERS_READ = "A viewer can read here, not answer."
ANSWERED_ALREADY = "You have already answered “{answer}”."
NOT_AN_ANSWER = "“{answer}” is not an answer here: {expected}."

QUERY_NEEDS = "sql names :{name}, which params does not have"
QUERY_IDLE = "params has “{name}”, which sql does not name as :{name}"
QUERY_CUT = "{begin}… ({count} characters more)"
QUERY_READS = "a query only reads, and this begins with “{word}”"
QUERY_BARRED = "a query only reads, so “{word}” has no place in it"
QUERY_WRITES = "a query only reads: {reason}"
QUERY_NO_ROWS = "this is no query: it returns no rows"
QUERY_ADDRESS = "the address of this database cannot be read; set it again"
QUERY_OPTION = "the option “{name}” has no place in the address of a database"
QUERY_DRIVER = (
    "“{name}” is not how this database is reached here; "
    "leave out what follows the + in its address"
)
QUERY_NO_DRIVER = "no worker here has a driver for this kind of database"
QUERY_MEMORY = "it needed more memory than a query may have; select less at a time"
QUERY_TOO_LONG = "took longer than {limit}"
NO_DATABASE = (
    "there is no database called “{name}” in this house; "
    "`wf secret set db.{name}` keeps the address of one"
)
QUERY_FOLDERS = (
    "this file lies outside the folders whose databases may be read; "
    "the setting QUERY_FOLDERS names them"
)
QUERY_NO_FILE = "there is no database file “{name}” on this worker"
QUERY_OUR_OWN = (
    "this is the database that Threadwork itself lives in; a query reads any other"
)
QUERY_TOO_MIGHTY = (
    "this role may do everything on the server that Threadwork itself lives on; "
    "make one that only reads: CREATE ROLE reader LOGIN; "
    "GRANT pg_read_all_data TO reader"
)


SIGNALS = {
    STARTED: "began",
    COMPLETED: "finished",
    FAILED: "failed",
    CANCELLED: "stopped",
}


def signal(body: str) -> str:
    """Say what a signal tells of its bot: “failed: exited with status 1”."""
    what, _, reason = body.partition(": ")
    said = SIGNALS.get(what, what)
    return f"{said}: {reason}" if reason and reason != STOPPED else said


def seconds(value: float) -> str:
    """Say a duration in seconds the short way: 90 s, 10 min, 2 h, 3 days."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if value >= size and value % size == 0:
            count = int(value // size)
            return "1 day" if (count, unit) == (1, "days") else f"{count} {unit}"
    return f"{value:g} s"
