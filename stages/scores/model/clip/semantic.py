"""Scores that find what means the same, by the CLIP embeddings of images."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from ...base import (
    MEMORY,
    SEEN_PIXELS,
    DatasetScore,
    ModelDatasetScore,
    Records,
    ScoreError,
    Value,
    single_or_list,
)
from ...reference_lists import ReferenceList, load_list, path_of
from ..model import Output
from ..model_files import source_of
from .clip_score import ClipScore

if TYPE_CHECKING:
    from ...sample_view import View

Keep = Literal["hardest", "easiest", "first"]


@dataclass(frozen=True, kw_only=True)
class SemanticDuplicate(
    ModelDatasetScore,
    ClipScore,
    name="semantic_duplicate",
    kind="boolean",
    subject="image",
    scale_tolerance=SEEN_PIXELS,
    compares=DatasetScore.compares | {"eps", "keep"},
):
    """Whether the image means the same as another one, which is kept.

    Two images mean the same if the cosine of their CLIP embeddings is above 1 - ``eps``.

    Embeddings are clustered by k-means, and images of the same cluster are compared: k is the
    square root of the number of images, 1 for up to 10,000. They are taken in the order of
    ``keep``, and an image is a duplicate if it is near one before it that is not a duplicate
    itself. ``keep="hardest"`` begins with the image farthest from the centroid, "easiest" with the
    nearest, "first" with the first of the set. Embeddings of an earlier run are used if they are
    there, see --embeddings and --embeddings-from. ``eps`` depends on the model: look at some pairs.
    Images near each other in different clusters stay. ``among="all"``: all samples of the shards
    are compared; ``among="kept"``: only those that all other terms keep. Source: SemDeDup (Abbas et
    al. 2023), which also removes images that are near a removed one only; defaults of NeMo Curator.
    Products of floats may differ in their last digits between processors.
    """

    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"eps": (0, 1)}

    eps: float = 0.07
    keep: Keep = "hardest"

    def record(self, view: "View", outputs: Sequence[Output]) -> bytes:
        """Return the embeddings of a sample's images. Raises ScoreError "not-finite"."""
        import numpy as np

        from ...comparing.vector_file import pack_vectors

        if not all(np.isfinite(output).all() for output in outputs):
            raise ScoreError(
                "not-finite", "the model returned an embedding with NaN or infinite numbers"
            )
        return pack_vectors(list(outputs))

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        raise TypeError(f"{self.name} compares samples: call record for each, then resolve")

    def resolve(
        self, records: Records, folder: Path, *, memory: int = MEMORY
    ) -> Iterator[tuple[int, int, Value]]:
        from ...comparing.similar_vectors import duplicates
        from ...comparing.vector_file import VectorFile

        vectors = VectorFile(folder / "vectors", records)
        for location, are_duplicates in duplicates(vectors, self.eps, self.keep, memory):
            # The number of the shard, then that of the sample.
            yield location >> 32, location & 0xFFFFFFFF, single_or_list(are_duplicates.tolist())


@dataclass(frozen=True, kw_only=True)
class EmbeddingDistance(
    ClipScore,
    name="embedding_distance",
    low=0,
    high=2,
    subject="image",
    scale_tolerance=SEEN_PIXELS,
):
    """Distance of an image to the nearest one of a list.

    It is 1 minus the cosine of their CLIP embeddings.

    From 0, the same, to 2. ``file`` is a list that ``--export embeddings.npz`` wrote, made with the
    same model and weights. Six digits. Source: our own.
    """

    file: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        path_of(self.name, self.file)

    def _reference_list(self) -> ReferenceList:
        return load_list(self.name, self.file, "embeddings")

    def settings(self) -> dict[str, object]:
        """Return the settings; files by a hash of their contents."""
        return {**super().settings(), "file": source_of(self.file)}

    def check_files(self) -> None:
        self._reference_list().check_model(self.main_model().identity(), self.name)

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        # An array (n, d).
        references = self._reference_list().values
        distances = [float(1 - (references @ output).max()) for output in outputs]
        return single_or_list([round(distance, 6) for distance in distances])
