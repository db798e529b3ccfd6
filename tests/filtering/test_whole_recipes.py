"""Recipes in files: what is read of them, and the full text of each error.

``golden_file`` says how to renew the expected output.
"""

import json
from pathlib import Path

import jsonschema

from tests.golden_file import check_text
from wdsflow.filtering.recipe.recipe_file import (
    RecipeError,
    merged_recipe,
    recipe_schema,
    recipe_yaml,
)
from wdsflow.filtering.recipe.recipe_stages import schema_of_stages

GOLDEN = Path(__file__).parent / "recipes.txt"
YAML = [
    "", "{}", "where: min_side >= 200", "where: 'min_side >='\n", "wheer: a", "- a", "5", "where: 5", "where: a\nimage: b\nwhere: c",
    "keep: ['clip_similarity top 30%']", "keep: ['clip_similarity top 0%']", "keep: ['blur top 101%']",
    "keep: ['blur top 0.5%', 'blur top 1%']", "keep: [blur]", "keep: blur",
    "keep: ['caption bottom 10%', 'near_duplicate top 5%']", "keep: ['rank_percent(\"blur\") top 5%']", "keep: ['blur + 1 bottom 100% of kept']",
    "scores: [blur, 'phash(decode=\"x\")']", "scores: [blurr]", "scores: blur", "unknown: maybe", "empty: keep",
    "hash_images: yes", "hash_images: 'yes'", "quality: 5\nimage_memory: 3MB", "quality: x", "stages: []", "stages: clean_text",
    "stages: [clean_text, {drop: {fields: json}}]", "stages: [renam]", "stages: [decode]", "stages: [{rename: {image: jpg, text: txt}}]",
    "stages: [{rename: {fields: {image: jpg}, keep: false}}]", "stages: [{rename: {IMAGE: jpg}}]", "stages: [{rename: {.a: jpg}}]",
    "stages: [{rename: {a/b: jpg}}]", "stages: [{rename: 5}]", "stages: [{drop: {}}]", "stages:\n- drop:\n    fields: a\n    feilds: b\n",
    "stages: [{clean_text: {max_bytes: many}}]", "stages: [{clean_text: {on_empty: never}}]", "stages: [{clean_text: {fallback: cp99}}]",
    "stages: [{sample: {rate: 2}}]", "stages: [{sample: {rate: 0.5, seed: 1}}]", "stages: [{json_text: {json_text_key: [a, b], json_text_key_probs: [0.5, 1]}}]",
    "stages: [{json_text: {json_text_key: a, target: TXT}}]", "stages: [{json_text: {json_text_key: a, on_error: drop}}, has_fields]", "stages: [5]", "stages: [select]", "stages: [unbatch]",
    "stages: [{drop: {fields: a}, sample: {rate: 1}}]", "a: &a [*a]\nwhere: 'True'", "where: >\n  width > 1\n  and heigth > 2\nscores: []\n",
]  # fmt: skip
OTHERS = {
    "a.toml": ['where = "min_side >= 200"\nscores = ["blur"]', 'where = "min_side >="', '[stages]\nx = 1', 'where = "True"\nwheer = "x"'],
    "a.json": ["{", "", '{"where": "True"}', '{"kind": "filter", "recipe": {"where": "width > 1"}}', "[]", '{"recipe": 5}', '{"hash_images": true}'],
}  # fmt: skip
FLAGS: list[dict[str, object]] = [
    {}, {"where": "width > 1"}, {"where": " "}, {"where": None}, {"scores": ["blur, phash", "clip_similarity(image='a,b'),,width"]},
    {"scores": ["zero_shot(labels=('a', 'b'), label=\"a\"), blur"]}, {"unknown": "keep"}, {"unknown": "x"}, {"quality": 3}, {"hash_images": False},
    {"images": "png", "captions": "txt|json:a"}, {"keep": ("blur top 5%",)},
]  # fmt: skip


def said(path: Path | None, flags: dict[str, object]) -> str:
    """What a recipe sets, or the error about it."""
    try:
        recipe, plain = merged_recipe(path, flags), merged_recipe(None, {}).to_dict()
    except ValueError as error:
        return f"{type(error).__name__}: {error}".replace(str(path), path.name if path else "")
    return json.dumps(
        {name: value for name, value in recipe.to_dict().items() if value != plain.get(name)}
    )


def test_recipes_of_files_are_read_and_refused_so(tmp_path):
    lines = []
    for name, texts in {"a.yaml": YAML, **OTHERS}.items():
        for text in texts:
            path = tmp_path / name
            path.write_text(text, encoding="utf-8")
            lines += [f"{name} {text!r}", f"    {said(path, {})}"]
    check_text(GOLDEN, "files", "\n".join(lines))


def test_flags_come_before_files(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("where: blur > 1\nscores: [nosuch]\nunknown: drop\n")
    lines = [f"{flags}\n    {said(None, flags)}\n    {said(path, flags)}" for flags in FLAGS]
    check_text(GOLDEN, "flags", "\n".join(lines))


def test_a_recipe_is_printed_so_and_read_back(tmp_path):
    recipe = merged_recipe(
        None,
        {
            "where": "width > 1",
            "scores": ["blur"],
            "keep": ("blur top 5%",),
            "stages": ["clean_text", {"drop": {"fields": "cls"}}],
        },
    )
    path = tmp_path / "a.yaml"
    path.write_text(recipe_yaml(recipe), encoding="utf-8")
    assert merged_recipe(path, {}) == recipe
    check_text(GOLDEN, "printed", recipe_yaml(recipe))


def test_a_file_that_is_no_recipe_is_refused(tmp_path):
    path = tmp_path / "a.yaml"
    for data, words in ((b"\xff", "is not UTF-8"), (b"", "")):
        path.write_bytes(data)
        found = said(path, {})
        assert words in found
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)
    assert said(path, {}) == "RecipeError: a.yaml is too large for a recipe"
    path.unlink()
    assert said(path, {}) == "RecipeError: a.yaml: No such file or directory"
    assert issubclass(RecipeError, ValueError)


def test_the_schema_takes_a_stage_by_its_name_or_with_its_settings():
    one, alone = schema_of_stages()["items"]["anyOf"]
    assert {
        name: one[name] for name in ("additionalProperties", "minProperties", "maxProperties")
    } == {
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    assert alone == {"enum": ["clean_text"]}
    assert set(one["properties"]) == {
        "clean_text",
        "drop",
        "has_fields",
        "json_text",
        "rename",
        "sample",
    }
    settings, names = one["properties"]["rename"]["anyOf"]
    assert names == {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "minProperties": 1,
    }
    assert settings["required"] == ["fields"]
    assert settings["additionalProperties"] is False
    assert settings["properties"]["keep"]["default"] is True
    assert "required" not in one["properties"]["clean_text"]
    for text, fits in (
        ("clean_text", True),
        ("drop", False),
        ({"sample": {"rate": 1}}, True),
        ({"sample": {}}, False),
    ):
        try:
            jsonschema.validate([text], schema_of_stages())
        except jsonschema.ValidationError:
            assert not fits, text
        else:
            assert fits, text
    assert (
        json.loads(recipe_schema())["properties"]["stages"]["items"] == schema_of_stages()["items"]
    )
