"""Semantic duplicates among made embeddings: the time of `resolve`, without the model."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import filtering

COUNT, SIZE = 200_000, 512
# Centres around which the vectors are.
CENTRES = 200


def ours(clock: filtering.MakeClock) -> dict[str, Any]:
    """Run `semantic_duplicate` on 200,000 vectors of 512 numbers.

    One in twenty nearly repeats another.
    """
    import numpy as np

    from wdsflow.stages.scores import make_score
    from wdsflow.stages.scores.comparing.vector_file import pack_vectors

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CENTRES, SIZE)).astype(np.float32)
    numbers = rng.integers(0, CENTRES, COUNT)
    vectors = centres[numbers] + 1.2 * rng.normal(size=(COUNT, SIZE)).astype(np.float32)
    repeats = rng.choice(COUNT - 1, COUNT // 20, replace=False)
    noise = rng.normal(size=(len(repeats), SIZE)).astype(np.float32)
    vectors[repeats] = vectors[repeats + 1] + 0.05 * noise

    def records() -> Iterator[tuple[int, int, bytes]]:
        yield from ((0, number, pack_vectors([vector])) for number, vector in enumerate(vectors))

    score = make_score("semantic_duplicate", model="local-dir:none", pretrained="")
    with tempfile.TemporaryDirectory(prefix="semantic-") as folder:
        timer = clock()
        resolved = score.resolve(records(), Path(folder))  # type: ignore[attr-defined]
        duplicates = sum(bool(value) for _, _, value in resolved)
        result: dict[str, Any] = timer.stop(found=duplicates)
    return result | {"samples_per_s": COUNT / result["seconds"]}
