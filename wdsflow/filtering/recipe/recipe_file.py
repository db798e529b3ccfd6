"""Recipes in files: YAML or TOML, checked, with errors that have the line number."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.expressions.errors import unknown_name_hint
from wdsflow.filtering.predicates.catalog import far_predicate, parse, parse_score, share_predicate
from wdsflow.stages.scores.score_catalog import all_scores

from .recipe import Recipe
from .recipe_stages import StagesError, read_stages, schema_of_stages

# A run.json lists all shards.
_LARGEST = 64 << 20
# Levels of a recipe whose lines are noted.
_DEEPEST = 4
# Settings that are lists of texts.
_LISTS = ("keep", "near", "scores")
_STAGES_DESCRIPTION = "Stages that run on each sample before it is scored; members that they change are written again."

if TYPE_CHECKING:
    import yaml
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails


class RecipeError(ValueError):
    """An invalid recipe; the message has the position and the reason."""


def merged_recipe(path: Path | None, flags: Mapping[str, object]) -> Recipe:
    """Return the recipe of a file, or the default one, overridden by flags (None: not given).

    Raises RecipeError, ValueError if a flag's predicate is empty.
    """
    recipe, lines = _read(path) if path is not None else (Recipe(), {})
    values = {name: value for name, value in flags.items() if value is not None}
    # --where "$UNSET" would keep everything.
    if not str(values.get("where", "1")).strip():
        raise ValueError("--where is empty: name what to keep, or all samples with --where True")
    if isinstance(scores := values.get("scores"), Iterable):
        values["scores"] = tuple(
            part.strip() for text in scores for part in _parts(text) if part.strip()
        )
    if path is not None:
        _check_scores(recipe, str(path), lines, values)
    return _validated_recipe({**recipe.to_dict(), **values}, "", {}) if values else recipe


def _parts(text: str) -> list[str]:
    """Split at commas outside of parentheses and quotes."""
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if sign == "," and not (depth or quote):
            parts.append("")
            continue
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        else:
            depth += {"(": 1, ")": -1}.get(sign, 0)
        parts[-1] += sign
    return parts


def _check_scores(
    recipe: Recipe, source: str, lines: Mapping[str, int], values: Mapping[str, object]
) -> None:
    """Raise RecipeError for invalid scores, unless a flag replaces them."""
    checks: list[tuple[str, str, Callable[..., object]]] = [
        (f"scores.{number}", text, parse_score) for number, text in enumerate(recipe.scores, 1)
    ]
    checks += [
        (f"keep.{number}", text, share_predicate) for number, text in enumerate(recipe.keep, 1)
    ]
    checks += [
        (f"near.{number}", path, far_predicate) for number, path in enumerate(recipe.near, 1)
    ]
    if recipe.where.strip():
        checks.insert(0, ("where", recipe.where, parse))
    for name, text, check in checks:
        if name.partition(".")[0] not in values:
            try:
                check(text, all_scores())
            except ValueError as error:
                raise RecipeError(f"{_location(name, source, lines)}{error}") from None


def _read(path: Path) -> tuple[Recipe, dict[str, int]]:
    """Return a recipe, and the lines of its keys.

    The file is TOML by its name, the run.json of an earlier run, or YAML.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        text = data.decode()
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RecipeError(f"{path} is not UTF-8") from None
    if len(data) > _LARGEST:
        raise RecipeError(f"{path} is too large for a recipe")
    readers = {".toml": _toml, ".json": _json}
    content, lines = readers.get(path.suffix.lower(), _yaml)(path, text)
    if not isinstance(content, dict):
        raise RecipeError(f'{path}: a recipe is a mapping, such as\nwhere: "min_side >= 200"')
    return _validated_recipe(content, str(path), lines), lines


def _json(path: Path, text: str) -> tuple[object, dict[str, int]]:
    """Return a recipe, or the one in the record of a run."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise RecipeError(f"{path}: {error}") from None
    if isinstance(content, dict) and isinstance(content.get("recipe"), dict):
        content = content["recipe"]
    return content, {}


def _toml(path: Path, text: str) -> tuple[object, dict[str, int]]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ImportError:
            raise RecipeError(
                f"{path}: TOML needs Python 3.11, or the package tomli; YAML does not"
            ) from None
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path}: {error}") from None
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"""\s*\[?\s*["']?([\w-]+)""", line)
        if match:
            lines.setdefault(match[1], number)
    return content, lines


def _yaml(path: Path, text: str) -> tuple[object, dict[str, int]]:
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[str, int] = {}
        if isinstance(node, yaml.MappingNode):
            for key, _ in node.value:
                name, number = str(key.value), key.start_mark.line + 1
                if name in lines:
                    raise RecipeError(
                        f"{path}, line {number}: {name!r} is given twice, first in line {lines[name]}"
                    )
                lines[name] = number
            lines |= dict(_lines_of(node))
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = f", line {mark.line + 1}" if mark else ""
        raise RecipeError(f"{path}{location}: {getattr(error, 'problem', None) or error}") from None
    return content if content is not None else {}, lines


def _lines_of(node: "yaml.Node", at: str = "") -> Iterator[tuple[str, int]]:
    """Yield the paths of keys in a tree of YAML, such as "stages.1.rename"; lists count from 1."""
    import yaml

    pairs: list[tuple[str, yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        pairs = [(str(key.value), key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        pairs = [(str(number), value, value) for number, value in enumerate(node.value, 1)]
    for name, key_node, value in pairs:
        yield f"{at}{name}", key_node.start_mark.line + 1
        # An anchor may contain itself.
        if at.count(".") < _DEEPEST:
            yield from _lines_of(value, f"{at}{name}.")


def _model() -> "type[BaseModel]":
    """Return the pydantic model of a recipe.

    It is created on demand, because importing pydantic is slow.
    """
    from pydantic import ConfigDict, Field, create_model

    plain, parts = {**Recipe().to_dict(), "precision": Recipe.precision}, dict[str, object]()
    for item in fields(Recipe):
        kind: object = item.type
        if item.name == "stages":
            kind = list[object]
        elif item.name in _LISTS:
            kind = list[str]
        description = (
            item.metadata["option"].help if "option" in item.metadata else _STAGES_DESCRIPTION
        )
        parts[item.name] = (kind, Field(default=plain.get(item.name, []), description=description))
    model: type[BaseModel] = create_model(
        "Recipe", __config__=ConfigDict(extra="forbid", strict=True), **parts
    )
    return model


def _validated_recipe(
    content: Mapping[str, object], source: str, lines: Mapping[str, int]
) -> Recipe:
    from pydantic import ValidationError

    values = {
        str(name): list(value) if isinstance(value, tuple) else value
        for name, value in content.items()
    }
    try:
        stages = read_stages(values.get("stages") or [])
    except StagesError as error:
        raise RecipeError(
            f"{_location(f'stages.{error.position}', source, lines)}{error}"
        ) from None
    values["stages"] = []
    # As YAML reads 512.
    if isinstance(values.get("resize"), int):
        values["resize"] = str(values["resize"])
    try:
        checked = _model().model_validate(values)
    except ValidationError as error:
        raise RecipeError(
            "\n".join(_error_text(item, source, lines) for item in error.errors())
        ) from None
    recipe = Recipe()
    chosen = {name: getattr(checked, name) for name in checked.model_fields_set}
    chosen |= {name: tuple(chosen[name]) for name in _LISTS if name in chosen}
    return replace(recipe, **{**chosen, "stages": stages})


def _location(name: str, source: str, lines: Mapping[str, int]) -> str:
    while name not in lines and "." in name:
        name = name.rpartition(".")[0]
    if name in lines:
        return f"{source}, line {lines[name]}: "
    return f"{source}: " if source else ""


def _error_text(error: "ErrorDetails", source: str, lines: Mapping[str, int]) -> str:
    name = str(error["loc"][0]) if error["loc"] else ""
    location = _location(name, source, lines)
    if error["type"] == "extra_forbidden":
        names = [item.name for item in fields(Recipe)]
        return f"{location}unknown key {name!r}; {unknown_name_hint(name, names)}"
    return f"{location}{name}: {error['msg'][:1].lower()}{error['msg'][1:]}"


def recipe_yaml(recipe: Recipe, join: str = "") -> str:
    """Return a recipe as YAML.

    ``join``: options of a table. They are not part of a recipe, so a comment names them.
    """
    import yaml

    text = yaml.safe_dump(recipe.to_dict(), sort_keys=False, allow_unicode=True, width=120)
    if join:
        note = "# The samples get fields of a table, which are options of the command:"
        text = f"{note}\n# {join}\n{text}"
    return str(text)


def recipe_schema() -> str:
    """Return the JSON Schema of recipes, for editors."""
    tree = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_model().model_json_schema(),
    }
    tree["title"] = "wdsflow filter recipe"
    tree["properties"]["stages"].update(schema_of_stages())
    tree["properties"]["resize"]["type"] = ["string", "integer"]
    return json.dumps(tree, indent=2) + "\n"
