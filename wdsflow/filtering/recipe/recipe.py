"""A recipe: what a run computes, which samples it keeps, and the stages before."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from wdsflow.filtering.where.predicate import check_ranges, parse, parse_score, share_predicate
from wdsflow.filtering.where.tokens import instead_of
from wdsflow.shards.shard_names import IMAGES
from wdsflow.stages import STAGES, CleanText, Drop, HasFields, JsonText, Rename, Sample
from wdsflow.stages.base import SampleStage
from wdsflow.stages.scores.score_catalog import all_scores

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

    A stage without settings is its name alone; the settings of rename may be the new names themselves. Raises
    StagesError.
    """
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise StagesError("stages must be a list, such as [{rename: {image: jpg}}, clean_text]")
    return tuple(_stage(number, item) for number, item in enumerate(found, 1))


def written_stages(stages: Sequence[SampleStage]) -> list[object]:
    """Return a list for ``read_stages``, without default settings."""
    return [_written(stage) for stage in stages]


def stage_identities(stages: Sequence[SampleStage]) -> list[object]:
    """Return what determines the result of stages in addition to their settings."""
    return [{"ftfy": version("ftfy")} if isinstance(stage, CleanText) else {} for stage in stages]


def _stage(number: int, item: object) -> SampleStage:
    if isinstance(item, str):
        item = {item: {}}
    if not isinstance(item, Mapping) or len(item) != 1:
        raise StagesError(
            f"stage {number} must be a name with its settings, such as {{rename: {{image: jpg}}}}", f"{number}"
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
        settings = {"fields": names, **{key: value for key, value in settings.items() if key in known}}
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
        told = error.errors()[0]["msg"]
        name = at.rpartition(".")[2]
        raise StagesError(f"{place}: {name}: {told[:1].lower()}{told[1:]}, not {value!r}", at) from None


def _check_names(place: str, at: str, stage: SampleStage) -> None:
    """Refuse names that readers of tars would not find."""
    wanted = [new for new, _ in stage.fields] if isinstance(stage, Rename) else []  # type: ignore[str-unpack]
    if isinstance(stage, JsonText):
        wanted = [stage.target]
    for name in wanted:
        if name != name.lower():
            raise StagesError(f"{place}: readers see {name!r} in lower case: write {name.lower()!r}", at)
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
    every["rename"] = {"description": every["rename"].pop("description"), "anyOf": [every["rename"], names]}
    one = {"type": "object", "properties": every, "additionalProperties": False, "minProperties": 1, "maxProperties": 1}
    alone = [
        name for name, stage in IN_RECIPES.items() if all(each.default is not MISSING for each in _settings(stage))
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
    tree = {"type": "object", "description": summary, "properties": properties, "additionalProperties": False}
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


Unknowns = Literal["quarantine", "keep", "drop"]
Empty = Literal["leave-out", "write"]
Numbering = Literal["kept", "dense"]
LinesTo = Literal["jsonl", "tar"]

CODE = 2  # rises if the same recipe would give other bytes than before


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is computed, and which samples are kept.

    Attributes:
        where: the predicate; empty to keep all samples.
        keep: shares of the samples to keep as well, such as "clip_similarity top 30%", "blur bottom 10% of kept".
        stages: applied to each sample before it is scored. Members that they change are written again.
        scores: scores for the ledger, computed for every sample, even if ``where`` needs none of them.
        images: fields that hold the image; the first that exists is used.
        captions: where captions are. "auto" is replaced by the place that a look at some samples finds.
        unknown: what to do with a sample whose predicate is unknown because a score failed.
        empty: what to do with a shard of which nothing is kept.
        numbering: "kept" names outputs as their inputs. "dense" names them 00000.tar and so on without gaps, once all
            shards are done.
        hash_images: write the xxh3 hash of every image to the ledger; this reads all their bytes.
        embeddings: keep the CLIP embeddings of images and captions in the ledger, as half floats.
        pilot: measurements of some samples, as JSON. They decide the order in which terms are tried.
        image_memory: memory limit for one image, encoded or while it is decoded. A larger image is an error of its
            sample. It is a part of the recipe because outcomes must not depend on the machine.
        image_token: text that stands for an image in JSON lines.
        video_token: text that stands for a video in JSON lines.
        chunk_end: text that ends a chunk in JSON lines.
        media_root: folder that paths in JSON lines are relative to; "" for the folder of the file.
        lines_to: format of the output for JSON lines.
        tar_samples: the most samples in a shard that is written for JSON lines.
        tar_size: the largest size of such a shard.
    """

    where: str = ""
    keep: tuple[str, ...] = ()
    stages: tuple[SampleStage, ...] = ()
    scores: tuple[str, ...] = ()
    images: str = IMAGES
    captions: str = "txt"
    unknown: Unknowns = "quarantine"
    empty: Empty = "leave-out"
    numbering: Numbering = "kept"
    hash_images: bool = False
    embeddings: bool = False
    pilot: str = ""
    image_memory: str = "512MiB"
    image_token: str = "<__dj__image>"  # noqa: S105 - no password
    video_token: str = "<__dj__video>"  # noqa: S105
    chunk_end: str = "<|__dj__eoc|>"
    media_root: str = ""
    lines_to: LinesTo = "jsonl"
    tar_samples: int = 10_000
    tar_size: str = "1GiB"

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        plain |= {"stages": written_stages(self.stages), "scores": list(self.scores), "keep": list(self.keep)}
        if not self.keep:  # recipes of earlier versions have none, and their runs can be resumed
            del plain["keep"]
        return plain


def recorded_run(run_file: Path) -> dict[str, Any]:
    """Return what a run wrote down, as JSON holds it; nothing if there is none."""
    try:
        found = json.loads(run_file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def recorded_recipe(run_file: Path) -> dict[str, Any]:
    """Return the recipe that a run wrote down, as JSON holds it; nothing if there is none."""
    recipe = recorded_run(run_file).get("recipe")
    return recipe if isinstance(recipe, dict) else {}


def canonical(value: object) -> str:
    """Return canonical JSON."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def digest(value: object) -> str:
    """Return a short hash of a JSON value."""
    from xxhash import xxh3_128_hexdigest

    return str(xxh3_128_hexdigest(canonical(value).encode("utf-8", "surrogatepass")))


def differences(old: object, new: object, at: str = "") -> Iterator[str]:
    """Yield the differences between two trees of JSON.

    >>> list(differences({"where": "a > 1", "v": {"x": 1}}, {"where": "a > 2", "v": {"x": 1}}))
    ['where: "a > 1" is now "a > 2"']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            yield from differences(old.get(name), new.get(name), f"{at}.{name}" if at else str(name))
    elif canonical(old) != canonical(new):
        if isinstance(old, list) and isinstance(new, list) and max(len(old), len(new)) > 8:
            yield f"{at}: {_sets(old, new)}"
        else:
            yield f"{at}: {_short(old)} is now {_short(new)}"


def _sets(old: list[object], new: list[object]) -> str:
    before, after = {canonical(item) for item in old}, {canonical(item) for item in new}
    return (
        f"{len(after - before):,} are new, {len(before - after):,} are missing" if before != after else "another order"
    )


def _short(value: object) -> str:
    text = canonical(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def canonical_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe in canonical form: white space and the like do not matter, shares to keep are terms of ``where``.

    Raises ValueError, such as WhereError.
    """
    names = all_scores()
    parts = [str(parse(recipe.where, names))] if recipe.where.strip() else []
    parts = parts if not recipe.keep else [f"({part})" for part in parts]
    parts += [share_predicate(text, names) for text in recipe.keep]
    where = str(parse(" and ".join(parts), names)) if parts else ""
    scores = (str(parse_score(text, names)) for text in recipe.scores)
    return replace(recipe, where=where, keep=(), scores=tuple(dict.fromkeys(scores)))


def conditions_told(recipe: Recipe) -> list[str]:
    """Return a line for each comparison of the predicate that has the same result for all samples.

    ``recipe``: as the user wrote it, since errors show the place in its predicate.

    Raises WhereError if a term can never hold; ValueError as ``canonical_recipe``.
    """
    names = all_scores()
    parts = [recipe.where] if recipe.where.strip() else []
    parts += [share_predicate(text, names) for text in recipe.keep]
    return [*dict.fromkeys(line for part in parts for line in check_ranges(parse(part, names), names))]
