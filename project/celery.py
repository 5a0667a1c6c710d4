"""The Celery app: JSON only, no results kept, the broker guard."""

from __future__ import annotations

import os
from typing import Any

import kombu.transport.redis as redis_transport
from celery import Celery
from celery.loaders.app import AppLoader
from django.core.exceptions import ImproperlyConfigured
from redis.exceptions import ConnectionError as RedisConnectionError

from project import roles

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


setattr(redis_transport.Channel, "_connparams", guarded_connparams)  # noqa: B010  a method
