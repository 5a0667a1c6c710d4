"""Every sentence System says to people about runs and steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STARTED_BY = "Started by {who}."
STARTED_WITH = "Started by {who} with {payload}"
BY_SCHEDULE = "the schedule, for the slot {slot:%Y-%m-%d %H:%M} UTC"
BY_SCHEDULE_LATE = (
    "the schedule, for the slot {slot:%Y-%m-%d %H:%M} UTC, which was missed"
)
RETRY_OF = "Started by {who} to retry run {run}. Kept from it: {kept}."
RETRY_PAYLOAD = " The payload was changed to {payload}"
NOTHING_TO_RETRY = (
    "This run completed, so nothing is left to retry. `wf spawn` starts a new one; "
    "`--from STEP` does one step and what follows again."
)
NOTHING_KEPT = "nothing"

SLEEPING_FOR = "Sleeping for {duration}."
SLEEPING_UNTIL = "Sleeping until {until:%Y-%m-%d %H:%M:%S} UTC."
SLEEP_PAST = "No need to sleep: that time has passed."
CALLING = "Call {function}({args})"
RETURNED = "{function} returned {result}"
SHORTENED = "{begin}… ({count} characters in all)"
QUERYING = "Read {database}:"
QUERY_WITH = "with {values}"
ROWS_READ = "{count} {rows} in {seconds} s."
ROWS_AT_LEAST = "{count} {rows} read in {seconds} s, and there are more."
ROWS_KEPT = "The first {count} are kept in the result."
CELLS_CUT = "{count} values are shortened there."
CSV_PART = "-part"  # of a file that does not hold all rows
MORE_ROWS = "… and {count} more rows."
MORE_COLUMNS = "… and {count} more columns."
NOT_IN_SQL = (
    "(Placeholders do not render in sql: put the value into params and write :name.)"
)
NOT_ALLOWED = "no function called “{function}” is allowed here"
NOT_KNOWN = "no worker here knows a function called “{function}”"
NO_ARGUMENT = "“{function}” takes no argument “{name}”"
NEEDS_ARGUMENT = "“{function}” needs the argument “{name}”"
NOT_KEPT = "what it returned cannot be kept: {reason}"
RESULT_TOO_LARGE = (
    "what it returned is too large to keep: {size} bytes, and {limit} are allowed"
)
TOO_MUCH_MEMORY = "it needed more memory than there is for it"
TOOK_LONGER = "took longer than {limit}"
ASKED_AGAIN = "“{function}” asked to be tried again: {reason}"
CALL_REJECTED = "“{function}” refused: {reason}"
SKIPPED = "Skipped {step}: {why}."
NOT_SENT = "{step} could not begin: {reason}"
TRY_AGAIN = "Trying {step} again in {delay} (try {number} of {limit}): {reason}"
WAITING_FOR_EVENT = "Waiting for the event {event}."
EVENT_CAME = "The event {event} came with {payload}"
NO_EVENT = "the event {event} did not come within {limit}"
RUNNING_WORKFLOW = "Running {workflow} in run {run}."
RUN_ENDED = {
    "completed": "Run {run} completed.",
    "failed": "run {run} failed at {step}: {reason}",
    "cancelled": "run {run} was cancelled",
}
RUN_TOO_LONG = "run {run} took longer than {limit}"
NO_WORKFLOW = "there is no workflow called “{slug}” here"
TOO_DEEP = "runs may start each other {most} deep and no deeper"
WAITS_FOR_ITSELF = "run {run} itself waits for this one to end"
IN_A_CIRCLE = "run {run}, which started it, would have waited for it for ever"
BY_RUN = "{workflow}, run {run}"
CANCELLED_WITH = "run {run}, which started it, was stopped"

OPENED = "Opened [{title}]({url})."
OPENED_BY = "Opened by [a run]({url})."
MAIL_OPENED = "{title}"
MAIL_OPENED_TEXT = """{prompt}

Read and answer here: {url}
"""

COMPLETED = "Completed."
FAILED = "Failed at {step}: {reason}"
SKIPPED_BY_HAND = "Skipped {step} by {who}: {reason}"
SET_BY_HAND = "{who} set the result of {step} by hand: {reason}"
BY_HAND_STOPPING = "What runs now is being stopped."
ALL_STEPS_DONE = "All steps of this run are done."
STANDS_ELSEWHERE = "The run stands at “{at}”, not at “{step}”."
CHILD_OF_STEP = "the step “{step}” of run {run}, which started it, was ended by hand"
RUN_PAUSED = "Paused by {who}."
RUN_PAUSED_BECAUSE = "Paused by {who}: {reason}"
RUN_RESUMED = "Resumed by {who}."
CANCELLED = "Cancelled by {who}."
CANCELLED_BECAUSE = "Cancelled by {who}: {reason}"
CANCEL_ASKED = "{who} asked to cancel; what runs now is being stopped."
CANCEL_ASKED_BECAUSE = (
    "{who} asked to cancel ({reason}); what runs now is being stopped."
)
REPLACED = "run {run} takes its place"
WORKER_DIED = "the worker died {count} times at this step"
RUN_DEADLINE = "the run took longer than {limit}"
RUN_OVERDUE = "The run has taken longer than {limit}; what runs now is being stopped."
UNKNOWN_KIND = "no worker here knows the step kind “{kind}” yet"
PAUSED = "the workflow is paused"

REJECTED = "rejected by {name}"
EXPIRED = "nobody answered in time"
EXIT_STATUS = "exited with status {status}"
SLOT_PAUSED = "the workflow was paused"
SLOT_MISSED = "missed while nothing fired schedules"
SLOT_JOINED = "run {run} was still active"
SLOT_MANY = "{count} slots: {reason}"
SLOT_LATE = "{late} late"

WHY = {
    "ready": "Ready to go on since {since}; no worker has taken it yet.",
    "unclaimed": "Ready to go on since {since}, but no worker has taken it: {reason}.",
    "running": "At work on {step} since {since} ({holder}).",
    "stopping": "Stopping: somebody asked to cancel it at {since}.",
    "overdue": "Stopping since {since}: the run has taken longer than {limit}.",
    "held": "Paused by {who} since {since}: no further step begins.",
    "held_because": (
        "Paused by {who} since {since} ({reason}): no further step begins."
    ),
    "event": "Waiting for the event {event}{key} since {since}{until}.",
    "run": "Waiting for run {run} ({workflow}, {state}) since {since}{until}.",
    "between": "{step} runs again at {at} (iteration {iteration}).",
    "by_hand": ("Stopping what runs of {step}: {who} has ended it by hand ({reason})."),
    "sleeping": "Asleep until {until}.",
    "retrying": "{step} failed; it is tried again at {until}.",
    "overslept": "{words} That time has passed: {reason}.",
    "faulty": "{step} was interrupted ({reason}); it is tried again at {until}.",
    "bot": "Waiting for {bot} to finish {step}, since {since} ({holder}).",
    "bot_idle": "Waiting for {bot} to begin {step}, since {since}; no worker took it yet.",
    "gate": "Waiting for {who} to answer “{title}” since {since}{until}.",
    "deferred": "Waiting for a worker that can run it: {reason}.",
    "paused": "Not started: the workflow is paused{reason}.",
    "no_seat": "Not started: it waits for run {run} to end.",
    "completed": "Completed at {at}.",
    "failed": "Failed at {at}: {step}: {reason}",
    "cancelled": "Cancelled at {at} by {who}.",
}
UNTIL = ", until {until}"
WITH_KEY = " with the key {key}"
WORKERS = {
    "somebody": "a worker",
    "held": "{who}, seen {seconds} s ago",
    "silent": "{who}, silent since {at}; its work is taken over at {until} at the latest",
    "dead": "{who}, which has died; its work is handed on",
    "overdue": "{who}, silent since {at}; its work is handed on now",
    "no_worker": "no worker for “{pool}” is up",
    "busy": "up, and busy with others, are {workers}",
    "up": "up are {workers}",
    "messenger": "the messenger has not answered since {since}",
    "conductor": "no conductor has been seen since {since}",
    "no_conductor": "no conductor has run here yet",
}
ENDED = (
    "This run has ended, so nobody acts on that: {why} "
    "“Start again” begins a new run; “Retry” keeps what is done."
)
HEARD = "Noted. {why}"
STEERED = "{bot} hears that at its next step."
USED = "{tokens:,} tokens in {requests} requests{cost}"
USED_ONCE = "{tokens:,} tokens in one request{cost}"
COST = ", ${cost:.2f}"


def used(usage: Mapping[str, Any] | None) -> str:
    """Say what the models of a run have used."""
    if usage is None:
        return ""
    tokens = usage["input_tokens"] + usage["output_tokens"]
    cost = "" if usage["cost"] is None else COST.format(cost=usage["cost"])
    words = USED_ONCE if usage["requests"] == 1 else USED
    return words.format(tokens=tokens, requests=usage["requests"], cost=cost)


ANYONE = "anyone in the house"

MAIL_WAITING = "{workflow} waits for an answer"
MAIL_WAITING_TEXT = """{workflow} asks:

{prompt}

Answer here: {url}
"""
MAIL_FAILED = "{workflow} failed at {step}"
MAIL_FAILED_TEXT = """{workflow} failed at {step}: {reason}

Read what happened, and retry it here: {url}
"""
SKIP_WHY = {
    "on_success": "an earlier step failed",
    "on_failure": "no step failed before it",
    "always": "it was left out",
}
