from __future__ import annotations

from threads.models.artifacts import Artifact
from threads.models.bots import Bot
from threads.models.gates import Gate, GateAnswer
from threads.models.houses import House, Member, Secret
from threads.models.jobs import Job
from threads.models.pulses import Pulse
from threads.models.threads import Entry, Thread
from threads.models.turns import Turn, TurnMessage

__all__ = [
    "Artifact",
    "Bot",
    "Entry",
    "Gate",
    "GateAnswer",
    "House",
    "Job",
    "Member",
    "Pulse",
    "Secret",
    "Thread",
    "Turn",
    "TurnMessage",
]
