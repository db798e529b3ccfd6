"""docs/filter.md names every option, and its recipes can be run."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from wdsflow.cli.main import main
from wdsflow.filtering.recipe.recipe import canonical_recipe
from wdsflow.filtering.recipe.recipe_file import merged

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "filter.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["filter", "measure", "cut"])
def test_every_option_stands_on_the_page(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    options = capsys.readouterr().out.partition("Main options:")[2]
    names = set(re.findall(r"--[a-z][a-z-]+", options)) - {"--help", "--no-hash-images", "--no-embeddings"}
    assert len(names) > 8
    assert {name for name in names if f"`{name}" not in PAGE and f" {name}" not in PAGE} == set()


def test_recipes_on_the_page_are_recipes_and_fit_the_schema_beside_it(tmp_path: Path):
    found = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found
    schema = json.loads((DOCS / "recipe.schema.json").read_text(encoding="utf-8"))
    for text in found:
        (tmp_path / "recipe.yaml").write_text(text, encoding="utf-8")
        assert canonical_recipe(merged(tmp_path / "recipe.yaml", {})).stages
        jsonschema.validate(yaml.safe_load(text), schema)
