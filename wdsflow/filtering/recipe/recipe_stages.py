"""Stages in recipes: read from JSON or YAML with errors that name the place, and written again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from importlib.metadata import version
from typing import Any, Literal, Union, get_args, get_origin

from wdsflow.expressions.errors import instead_of
from wdsflow.stages import STAGES, CleanText, Drop, HasFields, JsonText, Rename, Sample
from wdsflow.stages.base import SampleStage

# Stages whose output is still a tar: these change captions and names, or drop samples.
IN_RECIPES: dict[str, type[SampleStage]] = {
    stage.name: stage for stage in (CleanText, Drop, HasFields, JsonText, Rename, Sample)
}


class StagesError(ValueError):
    """Invalid stages of a recipe, with the reason. ``at``: the place in the list, such as "1.rename.fields"."""

    def __init__(self, text: str, at: str = "") -> None:
        super().__init__(text)
        self.at = at


def read_stages(found: object) -> tuple[SampleStage, ...]:
    """Return the stages in a list, such as ``[{"rename": {"image": "jpg;png"}}, "clean_text"]``.

    A stage without settings is its name alone; the settings of rename may be the new names
    themselves. Raises StagesError.
    """
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise StagesError("stages must be a list, such as [{rename: {image: jpg}}, clean_text]")
    return tuple(_stage(number, item) for number, item in enumerate(found, 1))


def written_stages(stages: Sequence[SampleStage]) -> list[object]:
    """Return a list for ``read_stages``, without default settings."""
    return [_written(stage) for stage in stages]


def stage_identities(stages: Sequence[SampleStage]) -> list[object]:
    """Return the values that determine the result of stages in addition to their settings."""
    return [{"ftfy": version("ftfy")} if isinstance(stage, CleanText) else {} for stage in stages]


def _stage(number: int, item: object) -> SampleStage:
    if isinstance(item, str):
        item = {item: {}}
    if not isinstance(item, Mapping) or len(item) != 1:
        raise StagesError(
            f"stage {number} must be a name with its settings, such as {{rename: {{image: jpg}}}}",
            f"{number}",
        )
    ((name, settings),) = item.items()
    stage = IN_RECIPES.get(name)
    if stage is None:
        raise StagesError(f"stage {number}: {_unknown(name)}", f"{number}")
    place, at = f"stage {number}, {name}", f"{number}.{name}"
    settings = {} if settings is None else settings
    if not isinstance(settings, Mapping):
        raise StagesError(f"{place}: its settings must be a mapping, not {settings!r}", at)
    known = {each.name: each for each in fields(stage) if each.init}
    if stage is Rename and "fields" not in settings:
        names = {key: value for key, value in settings.items() if key not in known}
        settings = {
            "fields": names,
            **{key: value for key, value in settings.items() if key in known},
        }
    for key in settings:
        if key not in known:
            hint = instead_of(str(key), [*known])
            raise StagesError(f"{place}: unknown setting {key!r}; {hint}", f"{at}.{key}")
    for key, each in known.items():
        if key not in settings and each.default is MISSING:
            raise StagesError(f"{place}: {key} is missing", at)
    given: dict[str, Any] = {
        key: _value(place, f"{at}.{key}", value, known[key].type) for key, value in settings.items()
    }
    try:
        made = stage(**given)
    except (ValueError, TypeError) as error:
        raise StagesError(f"{place}: {error}", at) from None
    _check_names(place, at, made)
    return made


def _unknown(name: object) -> str:
    if name in {"decode", "resize", "tokenize"}:
        return f"{name} makes values that a tar cannot hold: use it in a loader"
    if name in {"batch", "unbatch", "shuffle"}:
        return f"{name} works on more than one sample: use it in a loader"
    if name == "select":
        return "select takes a Python function: use where to keep samples"
    return f"unknown stage {name!r}; {instead_of(str(name), [*IN_RECIPES])}"


def _value(place: str, at: str, value: object, kind: object) -> object:
    """Convert a value from JSON or YAML for its setting: lists become tuples."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        name = at.rpartition(".")[2]
        raise StagesError(
            f"{place}: {name}: {message[:1].lower()}{message[1:]}, not {value!r}", at
        ) from None


def _check_names(place: str, at: str, stage: SampleStage) -> None:
    """Reject names that readers of tars would not find."""
    wanted = [new for new, _ in stage.fields] if isinstance(stage, Rename) else []  # type: ignore[str-unpack]
    if isinstance(stage, JsonText):
        wanted = [stage.target]
    for name in wanted:
        if name != name.lower():
            raise StagesError(
                f"{place}: readers see {name!r} in lower case: write {name.lower()!r}", at
            )
        if "/" in name or not name.isprintable() or name[:1] == ".":
            raise StagesError(f"{place}: {name!r} cannot end the name of a member", at)


def _written(stage: SampleStage) -> object:
    settings = {
        each.name: _plain(value)
        for each in fields(stage)
        if each.init and (value := getattr(stage, each.name)) != each.default
    }
    if isinstance(stage, Rename):
        settings["fields"] = dict(stage.fields)
    return {stage.name: settings} if settings else stage.name


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def schema_of_stages() -> dict[str, object]:
    """Return the JSON Schema of the list."""
    every = {name: _schema_of(stage) for name, stage in IN_RECIPES.items()}
    names = {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1}
    every["rename"] = {
        "description": every["rename"].pop("description"),
        "anyOf": [every["rename"], names],
    }
    one = {
        "type": "object",
        "properties": every,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    alone = [
        name
        for name, stage in IN_RECIPES.items()
        if all(each.default is not MISSING for each in _settings(stage))
    ]
    return {"type": "array", "items": {"anyOf": [one, {"enum": alone}]}}


def _settings(stage: type[SampleStage]) -> "list[Field[object]]":
    return [each for each in fields(stage) if each.init]


def _schema_of(stage: type[SampleStage]) -> dict[str, object]:
    from pydantic import TypeAdapter

    properties = {}
    for each in _settings(stage):
        properties[each.name] = TypeAdapter(_as_json_has_it(each.type)).json_schema()
        if each.default is not MISSING:
            properties[each.name]["default"] = _plain(each.default)
    required = [each.name for each in _settings(stage) if each.default is MISSING]
    summary = (stage.__doc__ or "").split("\n\n")[0].strip().split("\n")[0]
    tree = {
        "type": "object",
        "description": summary,
        "properties": properties,
        "additionalProperties": False,
    }
    return {**tree, "required": required} if required else tree


def _as_json_has_it(kind: object) -> object:
    """Return a type without tuples: a list of pairs is a mapping, another tuple a list."""
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        return Mapping[str, str] if get_origin(inner) is tuple else list.__class_getitem__(inner)
    if get_origin(kind) is Literal or not get_args(kind) or isinstance(kind, type):
        return kind
    if get_origin(kind) in {Union, type(int | str)}:
        parts = tuple(dict.fromkeys(_as_json_has_it(part) for part in get_args(kind)))
        return Union[parts] if len(parts) > 1 else parts[0]  # noqa: UP007 - made from a list
    return kind


assert set(IN_RECIPES) <= set(STAGES)
