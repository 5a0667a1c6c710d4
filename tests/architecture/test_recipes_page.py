"""docs/recipes.md says what the code takes: every field, every kind, a file that works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from workflows import plan
from workflows.steps import MODELS, Common

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "recipes.md").read_text()
FIELDS = {
    *plan.Recipe.model_fields,
    *Common.model_fields,
    *(field for model in MODELS.values() for field in model.model_fields),
}
NOT_YET = {"form"}  # refused when it is applied


@pytest.mark.parametrize("field", sorted(FIELDS - NOT_YET))
def test_every_field_is_on_the_page(field):
    assert f"`{field}`" in PAGE or f"`{field}:" in PAGE


@pytest.mark.parametrize("kind", sorted(plan.KINDS))
def test_every_kind_has_a_line(kind):
    assert f"| `{kind}` |" in PAGE


def test_the_example_is_a_workflow():
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

    recipe = plan.parse_recipe(yaml.safe_load(example))

    assert [step.name for step in recipe.steps] == [
        "check",
        "look",
        "ask",
        "rest",
        "publish",
    ]
