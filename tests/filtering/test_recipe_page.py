"""The recipes that docs/recipe.md shows can be run."""

import json
import re
from pathlib import Path

import jsonschema
import yaml

from wdsflow.filtering.recipe.recipe import canonical_recipe
from wdsflow.filtering.recipe.recipe_file import merged_recipe

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "recipe.md").read_text(encoding="utf-8")


def test_recipes_on_the_page_are_recipes_and_fit_the_schema_beside_it(tmp_path: Path):
    found = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found
    schema = json.loads((DOCS / "recipe.schema.json").read_text(encoding="utf-8"))
    for text in found:
        (tmp_path / "recipe.yaml").write_text(text, encoding="utf-8")
        assert canonical_recipe(merged_recipe(tmp_path / "recipe.yaml", {})).stages
        jsonschema.validate(yaml.safe_load(text), schema)
