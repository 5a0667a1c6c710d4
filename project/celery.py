"""The Celery app: JSON only, no results kept, the broker guard."""

from __future__ import annotations

import logging
import os
from typing import Any

import kombu.transport.redis as kombu_redis
from celery import Celery
from celery.exceptions import InvalidTaskError
from celery.loaders.app import AppLoader
from celery.worker import strategy
from django.core.exceptions import ImproperlyConfigured
from redis.exceptions import ConnectionError as RedisConnectionError

from project import roles

logger = logging.getLogger(__name__)
redis_transport: Any = kombu_redis  # it has types only in part

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")


class Loader(AppLoader):  # type: ignore[misc]  # Celery has no types
    """What workers and beat begin with."""

    def on_worker_init(self) -> None:
        # Celery would fall back on a broker of its own choosing.
        try:
            roles.require_servers("A worker or beat")
        except ImproperlyConfigured as error:
            raise SystemExit(str(error)) from None


app = Celery("threadwork", loader="project.celery:Loader")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


plain_connparams: Any = redis_transport.Channel._connparams  # noqa: SLF001


def guarded_connparams(channel: Any, *args: Any, **kwargs: Any) -> Any:
    # Celery 5.7.0 restores messages on a channel it has closed after the server went
    # away; the AttributeError this raised ended the whole worker process. A connection
    # error is what its reconnect loop understands.
    if getattr(channel.connection, "client", None) is None:
        raise RedisConnectionError("The channel is already closed.")
    return plain_connparams(channel, *args, **kwargs)


redis_transport.Channel._connparams = guarded_connparams  # noqa: SLF001


plain_loads: Any = redis_transport.loads
plain_deliver: Any = redis_transport.Transport._deliver  # noqa: SLF001


def guarded_loads(words: str) -> Any:
    try:
        return plain_loads(words)
    except (ValueError, RecursionError):
        return None  # thrown away below, where it is known what it was meant for


def guarded_deliver(transport: Any, message: Any, queue: str) -> None:
    """Throw away what no Celery wrote: one such message would end every worker.

    Nothing is lost with it: the rows say what there is to do.
    """
    try:
        read(transport, message)
    except Exception as error:  # noqa: BLE001  it may be anything
        shown = repr(message)[:200]
        logger.warning("A message on %s was thrown away: %r %s", queue, error, shown)
        return
    plain_deliver(transport, message, queue)


def read(transport: Any, message: Any) -> None:
    """Raise where the consumer could not read the message's own form."""
    opened = redis_transport.Channel.Message(message, channel=transport.channels[0])
    headers = opened.headers
    if "task" in headers:
        for name in ("task", "id"):
            if not isinstance(headers[name], str):
                raise TypeError(name)


def careful(task: Any, app: Any, consumer: Any, **kwargs: Any) -> Any:
    """Take a message whose task is known and whose body fits no call for an invalid one."""
    plain = strategy.default(task, app, consumer, **kwargs)

    def receive(message: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return plain(message, *args, **kwargs)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise InvalidTaskError(repr(error)) from error

    return receive


app.Task.Strategy = "project.celery:careful"
redis_transport.loads = guarded_loads
redis_transport.Transport._deliver = guarded_deliver  # noqa: SLF001
