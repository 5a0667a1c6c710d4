"""Which model a name means, where it is reached and whose key opens it.

Imported with the first request of a worker only: the libraries take a second to load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import httpx2
from anthropic import AsyncAnthropic
from django.conf import settings
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from threads import phrases
from threads.runtime.faults import Broken

CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Provider:
    """Who serves models: in which shape, where, and under which secret's key."""

    shape: str
    url: str = ""  # the library's own where none is given
    key: str = ""  # the name of the house's secret; none is needed where it is empty


# A line that broke looks like an end; only a reason for it says that it is one.
WHOLE = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
KNOWN = {
    "openai": Provider("openai", key="OPENAI_API_KEY"),
    "openai-chat": Provider("openai-chat", key="OPENAI_API_KEY"),
    "anthropic": Provider("anthropic", key="ANTHROPIC_API_KEY"),
    "ollama": Provider("openai-chat", url="http://127.0.0.1:11434/v1"),
}
SHAPES = ("openai", "openai-chat", "anthropic")


def providers() -> dict[str, Provider]:
    """Return every provider by name, those of the setting MODELS over the known.

    `name=shape@url` or `name=shape@url#SECRET`, as `box=openai-chat@http://box:8000/v1`.
    """
    found = dict(KNOWN)
    for words in settings.MODELS:
        name, _, rest = words.partition("=")
        shape, _, place = rest.partition("@")
        url, _, key = place.partition("#")
        reached = not url or url.startswith(("http://", "https://"))
        if not name or shape not in SHAPES or not reached:
            raise Broken(phrases.BAD_MODELS.format(words=words))
        found[name] = Provider(shape, url, key)
    return found


def model_of(name: str, secret: Callable[[str], str]) -> Model:
    """Return the model that `provider:model` names; raise Broken in words."""
    where, _, model = name.partition(":")
    provider = providers().get(where)
    if provider is None or not model:
        known = ", ".join(sorted(providers()))
        raise Broken(phrases.NO_MODEL.format(model=name, known=known))
    key = secret(provider.key) if provider.key else "none"
    patience = httpx2.Timeout(settings.MODEL_SECONDS, connect=CONNECT_SECONDS)
    url = provider.url or None
    # The row decides about tries and their due times; the libraries make none.
    if provider.shape == "anthropic":
        claude = AsyncAnthropic(
            base_url=url, api_key=key, max_retries=0, timeout=patience
        )
        return AnthropicModel(
            model, provider=AnthropicProvider(anthropic_client=claude)
        )
    client = AsyncOpenAI(base_url=url, api_key=key, max_retries=0, timeout=patience)
    reached = OpenAIProvider(openai_client=client)
    if provider.shape == "openai":
        return OpenAIResponsesModel(model, provider=reached)
    return OpenAIChatModel(model, provider=reached, profile=WHOLE)
