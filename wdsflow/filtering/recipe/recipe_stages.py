"""Stages in recipes, read from JSON or YAML, and written again.

Errors name the position.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, Union, get_args, get_origin

from wdsflow.expressions.errors import unknown_name_hint
from wdsflow.installed import version_of
from wdsflow.stages import STAGES, CleanText, Drop, HasFields, JsonText, Rename, Sample
from wdsflow.stages.base import SampleStage

# Stages whose output is still a tar: these change captions and names, or drop samples.
IN_RECIPES: dict[str, type[SampleStage]] = {
    stage.name: stage for stage in (CleanText, Drop, HasFields, JsonText, Rename, Sample)
}


class StagesError(ValueError):
    """Invalid stages of a recipe, with the reason.

    ``position``: that of the error in the list, such as "1.rename.fields".
    """

    def __init__(self, text: str, position: str = "") -> None:
        super().__init__(text)
        self.position = position


def read_stages(listed: object) -> tuple[SampleStage, ...]:
    """Return the stages in a list, such as ``[{"rename": {"image": "jpg;png"}}, "clean_text"]``.

    A stage without settings is its name alone; the settings of rename may be the new names
    themselves. Raises StagesError.
    """
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise StagesError("stages must be a list, such as [{rename: {image: jpg}}, clean_text]")
    return tuple(_stage(number, item) for number, item in enumerate(listed, 1))


def written_stages(stages: Sequence[SampleStage]) -> list[object]:
    """Return a list for ``read_stages``, without default settings."""
    return [_written(stage) for stage in stages]


def stage_identities(stages: Sequence[SampleStage]) -> list[object]:
    """Return the values that determine the result of stages in addition to their settings."""
    return [
        {"ftfy": version_of("ftfy")} if isinstance(stage, CleanText) else {} for stage in stages
    ]


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
    label, position = f"stage {number}, {name}", f"{number}.{name}"
    settings = {} if settings is None else settings
    if not isinstance(settings, Mapping):
        raise StagesError(f"{label}: its settings must be a mapping, not {settings!r}", position)
    accepted = {field.name: field for field in _settings(stage)}
    if stage is Rename and "fields" not in settings:
        names = {key: value for key, value in settings.items() if key not in accepted}
        others = {key: value for key, value in settings.items() if key in accepted}
        settings = {"fields": names, **others}
    for key in settings:
        if key not in accepted:
            hint = unknown_name_hint(str(key), [*accepted])
            raise StagesError(f"{label}: unknown setting {key!r}; {hint}", f"{position}.{key}")
    for key, field in accepted.items():
        if key not in settings and field.default is MISSING:
            raise StagesError(f"{label}: {key} is missing", position)
    values: dict[str, Any] = {}
    for key, value in settings.items():
        values[key] = _value(label, f"{position}.{key}", value, accepted[key].type)
    try:
        result = stage(**values)
    except (ValueError, TypeError) as error:
        raise StagesError(f"{label}: {error}", position) from None
    _check_names(label, position, result)
    return result


def _unknown(name: object) -> str:
    if name in {"decode", "resize", "tokenize"}:
        return f"{name} makes values that a tar cannot hold: use it in a loader"
    if name in {"batch", "unbatch", "shuffle"}:
        return f"{name} works on more than one sample: use it in a loader"
    if name == "select":
        return "select takes a Python function: use where to keep samples"
    return f"unknown stage {name!r}; {unknown_name_hint(str(name), [*IN_RECIPES])}"


def _value(label: str, position: str, value: object, kind: object) -> object:
    """Convert a value from JSON or YAML for its setting: lists become tuples."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        name = position.rpartition(".")[2]
        raise StagesError(
            f"{label}: {name}: {message[:1].lower()}{message[1:]}, not {value!r}", position
        ) from None


def _check_names(label: str, position: str, stage: SampleStage) -> None:
    """Reject names that readers of tars do not read."""
    new_names = [new for new, _ in stage.fields] if isinstance(stage, Rename) else []  # type: ignore[str-unpack]
    if isinstance(stage, JsonText):
        new_names = [stage.target]
    for name in new_names:
        if name != name.lower():
            raise StagesError(
                f"{label}: readers see {name!r} in lower case: write {name.lower()!r}", position
            )
        if "/" in name or not name.isprintable() or name[:1] == ".":
            raise StagesError(f"{label}: {name!r} cannot end the name of a member", position)


def _written(stage: SampleStage) -> object:
    settings: dict[str, object] = {}
    for field in _settings(type(stage)):
        value = getattr(stage, field.name)
        if value != field.default:
            settings[field.name] = _plain(value)
    if isinstance(stage, Rename):
        settings["fields"] = dict(stage.fields)
    return {stage.name: settings} if settings else stage.name


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def schema_of_stages() -> dict[str, object]:
    """Return the JSON Schema of the list."""
    stages_by_name = {name: _schema_of(stage) for name, stage in IN_RECIPES.items()}
    names = {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1}
    stages_by_name["rename"] = {
        "description": stages_by_name["rename"].pop("description"),
        "anyOf": [stages_by_name["rename"], names],
    }
    single = {
        "type": "object",
        "properties": stages_by_name,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    without_settings = [
        name
        for name, stage in IN_RECIPES.items()
        if all(field.default is not MISSING for field in _settings(stage))
    ]
    return {"type": "array", "items": {"anyOf": [single, {"enum": without_settings}]}}


def _settings(stage: type[SampleStage]) -> "list[Field[object]]":
    return [field for field in fields(stage) if field.init]


def _schema_of(stage: type[SampleStage]) -> dict[str, object]:
    from pydantic import TypeAdapter

    properties = {}
    for field in _settings(stage):
        properties[field.name] = TypeAdapter(_json_type(field.type)).json_schema()
        if field.default is not MISSING:
            properties[field.name]["default"] = _plain(field.default)
    required = [field.name for field in _settings(stage) if field.default is MISSING]
    summary = (stage.__doc__ or "").split("\n\n")[0].strip().split("\n")[0]
    tree = {
        "type": "object",
        "description": summary,
        "properties": properties,
        "additionalProperties": False,
    }
    return {**tree, "required": required} if required else tree


def _json_type(kind: object) -> object:
    """Return a type without tuples: a list of pairs is a mapping, another tuple a list."""
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        return Mapping[str, str] if get_origin(inner) is tuple else list.__class_getitem__(inner)
    if get_origin(kind) in {Union, type(int | str)}:
        parts = tuple(dict.fromkeys(_json_type(part) for part in get_args(kind)))
        return Union[parts] if len(parts) > 1 else parts[0]  # noqa: UP007 - made from a list
    return kind


assert set(IN_RECIPES) <= set(STAGES)
