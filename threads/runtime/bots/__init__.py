"""Who answers a prompt, by the name of the runtime."""

from __future__ import annotations

from threads.runtime.bots import agent, scripted
from threads.runtime.bots.protocol import Runtime

RUNTIMES: dict[str, Runtime] = {
    "scripted": scripted.Scripted(),
    "agent": agent.Agent(),
}
