"""Threads never learns of workflows, not even through a reverse relation."""

from __future__ import annotations

import pytest
from django.apps import apps

MODELS = list(apps.get_app_config("threads").get_models())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_no_model_of_threads_reaches_into_workflows(model):
    reached = [
        related.name
        for related in model._meta.related_objects
        if related.related_model._meta.app_label == "workflows" and not related.hidden
    ]

    assert reached == []
