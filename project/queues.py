"""The queues of the worker roles; on a broker that stacks share, each has its own."""

from __future__ import annotations

from typing import Any

from kombu import entity

kombu: Any = entity  # it has types only in part
POOLS = ("steps", "turns", "jobs")


def declared(namespace: str) -> tuple[Any, ...]:
    """Return the pools' queues; outside `default` the broker knows each by namespace.

    The pool's name stays its alias, so that `-Q steps` and a ticket for `steps` mean
    the stack's own everywhere.
    """
    return tuple(queue(pool, namespace) for pool in POOLS)


def queue(pool: str, namespace: str) -> Any:
    name = own(pool, namespace)
    alias = None if name == pool else pool
    return kombu.Queue(name, kombu.Exchange(name), routing_key=name, alias=alias)


def own(name: str, namespace: str) -> str:
    """Return a name on the broker that no stack of another namespace has."""
    return name if namespace == "default" else f"{namespace}.{name}"
