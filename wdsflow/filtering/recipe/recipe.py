"""The recipe of a run, as a value: the same recipe on the same shards gives the same bytes."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from wdsflow.shards.field_names import IMAGES
from wdsflow.stages.base import SampleStage

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
