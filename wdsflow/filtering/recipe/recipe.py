"""What a run is asked to do, as a value: the same recipe on the same shards gives the same bytes."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from wdsflow.stages.base import SampleStage

from .recipe_stages import written_stages

Unknowns = Literal["quarantine", "keep", "drop"]
Empty = Literal["leave-out", "write"]
Numbering = Literal["kept", "dense"]
LinesTo = Literal["jsonl", "tar"]

CODE = 2  # grows when the same recipe would give other bytes than before


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is computed, and what of it keeps a sample.

    ``where`` is the predicate, empty for none. ``stages`` are applied to each sample first: scores see what they make of
    it, and members that they change are written anew. ``scores`` are computed for every sample that is not dropped by the
    tar, whether ``where`` needs them or not. ``images`` and ``captions`` say where these are in a sample; "auto" for
    captions is replaced by what a look at some samples finds, before the recipe is written down.
    ``unknown``: what becomes of a sample whose predicate stays unknown as a score failed. ``empty``: what becomes of a
    shard of which nothing is kept. ``numbering``: outputs have the names of their inputs, or 00000.tar and so on without
    gaps, which they get when all are done. ``hash_images``: xxh3 of every image in the ledger; this reads all their bytes.
    ``embeddings``: what CLIPs compute of images and captions for the scores is kept in the ledger, as half floats.
    ``pilot``: what was measured on some samples, as JSON; terms are tried in the order that it suggests.
    ``image_memory``: what one image may take, encoded or while it is decoded; one that would take more is an error of
    its sample. It belongs to the recipe, as outcomes must not depend on the machine.
    ``image_token``, ``video_token``, ``chunk_end``: what stands for them in the texts of JSON lines. ``media_root``: the
    folder that the paths there begin at, "" for that of the file. ``lines_to``: what is written of JSON lines, the same or
    tars with at most ``tar_samples`` and ``tar_size`` each.
    """

    where: str = ""
    stages: tuple[SampleStage, ...] = ()
    scores: tuple[str, ...] = ()
    images: str = "jpg;png;jpeg;webp"
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
        """Return it as JSON holds it."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**plain, "stages": written_stages(self.stages), "scores": list(self.scores)}


def recorded_recipe(run_file: Path) -> dict[str, Any]:
    """Return the recipe that a run wrote down, as JSON holds it; nothing where there is none."""
    try:
        found = json.loads(run_file.read_bytes())
    except (OSError, ValueError):
        return {}
    recipe = found.get("recipe") if isinstance(found, dict) else None
    return recipe if isinstance(recipe, dict) else {}
