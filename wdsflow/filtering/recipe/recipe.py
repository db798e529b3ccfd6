"""A recipe: the scores that a run computes, the samples that it keeps, and stages before."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

from wdsflow.memory.precision import Precision
from wdsflow.shards.shard_names import IMAGES
from wdsflow.stages.imaging.shrink import ImageFormat, Orientation, Shrinker, ShrinkMode
from wdsflow.stages.imaging.size_rule import SizeRule
from wdsflow.text.options import MEMORY, MODELS, OUTPUT, SAMPLES, option

if TYPE_CHECKING:
    from wdsflow.stages.base import SampleStage
    from wdsflow.stages.scores.base import Score

Unknowns = Literal["quarantine", "keep", "drop"]
Empty = Literal["leave-out", "write"]

# Options for making images smaller.
RESIZING = ("resize", "image_format", "quality", "orientation", "resize_mode")
# Items of a list that a difference shows.
_SHOWN = 8
# Incremented when the same recipe would give different bytes.
CODE = 3


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The scores to compute, and the predicate for samples to keep.

    Attributes:
        stages: stages that run on each sample before it is scored; members that they change are
            written again.
    """

    where: str = option(
        "",
        'Predicate: which samples to keep, such as "min_side >= 200 and caption_words >= 3".',
        metavar="PREDICATE",
    )
    keep: tuple[str, ...] = option(
        (),
        'Keep this share as well: "clip_similarity top 30%", "blur bottom 10% of kept"; repeatable.',
        metavar="SHARE",
    )
    near: tuple[str, ...] = option(
        (),
        "Drop images that are near one of a list, such as an evaluation set: a file that --export hashes.npz or embeddings.npz wrote; repeatable.",
        metavar="FILE",
        panel=SAMPLES,
    )
    stages: "tuple[SampleStage, ...]" = ()
    scores: tuple[str, ...] = option(
        (), "More scores to write to the ledger, for every sample.", metavar="NAMES"
    )
    image: str = option(
        IMAGES,
        "Fields that hold the image; the first that exists is used.",
        metavar="FIELDS",
        panel=SAMPLES,
    )
    caption: str = option(
        "txt",
        'Where captions are: txt, json:caption;alt or "txt|json:caption". auto: find out from some samples.',
        metavar="FIELDS",
    )
    unknown: Unknowns = option(
        "quarantine",
        "What to do with samples whose predicate is unknown because a score failed.",
        panel=SAMPLES,
    )
    empty: Empty = option(
        "leave-out", "What to do with shards of which nothing is kept.", panel=OUTPUT
    )
    hash_images: bool = option(
        False,
        "Write the xxh3 hash of each image's bytes to the ledger; this reads all their bytes.",
        "--hash-images/--no-hash-images",
        panel=SAMPLES,
    )
    embeddings: bool = option(
        False,
        "Store the CLIP embeddings of images and captions in the ledger, as half floats.",
        "--embeddings/--no-embeddings",
        panel=MODELS,
    )
    resize: str = option(
        "",
        "Make larger images smaller, such as 512 (the long side), short:224, pixels:1MP, square:512, center-crop:224. Others keep their bytes.",
        metavar="SIZE",
        panel=OUTPUT,
    )
    image_format: ImageFormat = option(
        "same", "With --resize: format of the images that are made smaller.", panel=OUTPUT
    )
    quality: int = option(
        95, "With --resize: quality of JPEG and WebP.", metavar="N", panel=OUTPUT, least=1, most=100
    )
    orientation: Orientation = option(
        "apply",
        "With --resize: apply EXIF's orientation to the pixels, or keep it in the file.",
        panel=OUTPUT,
    )
    resize_mode: ShrinkMode = option(
        "fast",
        "With --resize: fast decodes a JPEG at a half, a quarter or an eighth, while that is one and a half times the size wanted. exact: at full size.",
        panel=OUTPUT,
    )
    # In the recipe because outcomes must not depend on the
    # machine: "auto" is replaced before a run is recorded.
    precision: Precision = option(
        "auto",
        "Precision of CLIPs and models of transformers, unless a score sets its own. auto: bf16 on GPUs of compute capability 8.0 or more, otherwise fp32.",
        panel=MODELS,
    )
    # A part of the recipe because outcomes must not depend on the machine.
    image_memory: str = option(
        "512MiB",
        "Memory limit for decoding one image. Larger images are quarantined.",
        metavar="SIZE",
        panel=MEMORY,
    )

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        from .recipe_stages import written_stages

        plain: dict[str, object] = {}
        for item in fields(self):
            plain[item.name] = getattr(self, item.name)
        plain["stages"] = written_stages(self.stages)
        plain["scores"] = list(self.scores)
        # Left out where they are not set.
        for name in ("keep", "near"):
            del plain[name]
            if getattr(self, name):
                plain[name] = list(getattr(self, name))
        if self.precision == "auto":
            del plain["precision"]
        return plain


def recipe_to_record(recipe: Recipe) -> dict[str, object]:
    """Return a recipe as a run records it.

    fp32 is left out: it was the precision of all runs before there was a choice.
    """
    return {
        name: value
        for name, value in recipe.to_dict().items()
        if (name, value) != ("precision", "fp32")
    }


def shrinker_of(recipe: Recipe) -> Shrinker | None:
    """Return what makes the images of kept samples smaller; None if nothing does.

    Raises ValueError.
    """
    if recipe.resize:
        rule = SizeRule.parse(str(recipe.resize))
        return Shrinker(
            rule, recipe.image_format, recipe.quality, recipe.orientation, recipe.resize_mode
        )
    for name in RESIZING[1:]:
        if getattr(recipe, name) != getattr(Recipe, name):
            raise ValueError(
                f"--{name.replace('_', '-')} is for images that are made smaller: add --resize 512"
            )
    return None


def canonical_json(value: object) -> str:
    """Return canonical JSON."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def digest(value: object) -> str:
    """Return a short hash of a JSON value."""
    from xxhash import xxh3_128_hexdigest

    return str(xxh3_128_hexdigest(canonical_json(value).encode("utf-8", "surrogatepass")))


def differences(old: object, new: object, at: str = "") -> Iterator[str]:
    """Yield the differences between two trees of JSON.

    >>> list(differences({"where": "a > 1", "v": {"x": 1}}, {"where": "a > 2", "v": {"x": 1}}))
    ['where: "a > 1" is now "a > 2"']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            position = f"{at}.{name}" if at else str(name)
            yield from differences(old.get(name), new.get(name), position)
    elif canonical_json(old) == canonical_json(new):
        return
    elif isinstance(old, list) and isinstance(new, list) and max(len(old), len(new)) > _SHOWN:
        yield f"{at}: {_difference_of_lists(old, new)}"
    else:
        yield f"{at}: {_short(old)} is now {_short(new)}"


def _difference_of_lists(old: list[object], new: list[object]) -> str:
    """Return how many items of a list are new or missing.

    If the items are the same, return that their order changed.
    """
    before = {canonical_json(item) for item in old}
    after = {canonical_json(item) for item in new}
    if before == after:
        return "another order"
    return f"{len(after - before):,} are new, {len(before - after):,} are missing"


def _short(value: object) -> str:
    text = canonical_json(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def canonical_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe in canonical form.

    White space is normalised, and shares to keep become terms of ``where``.

    Raises ValueError, such as ExpressionError.
    """
    from wdsflow.filtering.predicates.catalog import parse, parse_score
    from wdsflow.stages.scores.score_catalog import all_scores

    names = all_scores()
    where = ""
    if recipe.where.strip():
        where = str(parse(recipe.where, names))
    terms = _terms_of_flags(recipe, names)
    if where and terms:
        # It may be an ``or``, which binds less than the ``and`` between terms.
        terms.insert(0, f"({where})")
    elif where:
        terms = [where]
    where = str(parse(" and ".join(terms), names)) if terms else ""
    scores = dict.fromkeys(str(parse_score(text, names)) for text in recipe.scores)
    return replace(recipe, where=where, keep=(), near=(), scores=tuple(scores))


def _terms_of_flags(recipe: Recipe, names: "Mapping[str, type[Score]]") -> list[str]:
    """Return the terms that --keep and --near stand for. Raises ValueError."""
    from wdsflow.filtering.predicates.catalog import far_predicate, share_predicate

    shares = [share_predicate(text, names) for text in recipe.keep]
    return shares + [far_predicate(path, names) for path in recipe.near]


def fixed_conditions(recipe: Recipe) -> list[str]:
    """Return a line for each comparison of the predicate that has the same result for all samples.

    ``recipe``: as the user wrote it, since errors show the position in its predicate.

    Raises ExpressionError if a term can never hold; ValueError as ``canonical_recipe``.
    """
    from wdsflow.expressions.ranges import check_ranges
    from wdsflow.filtering.predicates.catalog import parse
    from wdsflow.stages.scores.score_catalog import all_scores

    names = all_scores()
    parts = [recipe.where] if recipe.where.strip() else []
    parts += _terms_of_flags(recipe, names)
    return [*dict.fromkeys(line for part in parts for line in check_ranges(parse(part, names)))]
