"""The recipe of a run, as a value that can be compared and stored."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from wdsflow.filtering.where.predicate import parse, parse_score
from wdsflow.filtering.where.ranked_number import share_predicate
from wdsflow.filtering.where.value_ranges import check_ranges
from wdsflow.shards.output_names import IMAGES
from wdsflow.stages.base import SampleStage
from wdsflow.stages.scores.score_catalog import all_scores

from .recipe_stages import written_stages

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

    def to_dict(self) -> dict[str, Any]:
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


def canonical(value: Any) -> str:
    """Return canonical JSON."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def digest(value: Any) -> str:
    """Return a short hash of a JSON value."""
    from xxhash import xxh3_128_hexdigest

    return str(xxh3_128_hexdigest(canonical(value).encode("utf-8", "surrogatepass")))


def differences(old: Any, new: Any, at: str = "") -> Iterator[str]:
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


def _sets(old: list[Any], new: list[Any]) -> str:
    before, after = {canonical(item) for item in old}, {canonical(item) for item in new}
    return (
        f"{len(after - before):,} are new, {len(before - after):,} are missing" if before != after else "another order"
    )


def _short(value: Any) -> str:
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
