"""Vectors in a file: which are duplicates of others, and what is no record of them."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from wdsflow.stages.scores.comparing import similar_vectors
from wdsflow.stages.scores.comparing.similar_vectors import duplicates
from wdsflow.stages.scores.comparing.vector_file import VectorFile, pack_vectors

MEMORY = 1 << 20


def drawn(count: int) -> NDArray[np.float32]:
    """Return vectors, of which each third is nearly one of the others."""
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(count, 8)).astype(np.float32)
    vectors[2::3] = vectors[0 : len(vectors[2::3])] + rng.normal(size=(len(vectors[2::3]), 8)) / 50
    return vectors


def test_duplicates_are_the_same_however_many_are_compared_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = drawn(40)
    file = VectorFile(
        tmp_path / "v", [(0, number, pack_vectors([each])) for number, each in enumerate(vectors)]
    )
    unit = file.read_unit_vectors(slice(None))
    cosines = unit @ unit.T
    kept: list[int] = []
    for number in range(40):
        if all(cosines[number, other] <= np.float32(0.95) for other in kept):
            kept.append(number)
    assert 10 < len(kept) < 40

    for block in (1024, 3):
        monkeypatch.setattr(similar_vectors, "_BLOCK", block)
        found = dict(duplicates(file, 0.05, "first", MEMORY))
        assert [number for number, near in found.items() if not near[0]] == kept


def test_a_set_without_vectors_has_no_duplicates(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "v", [])

    assert (len(file), list(duplicates(file, 0.05, "first", MEMORY))) == (0, [])


@pytest.mark.parametrize(
    "data", [b"", b"\0\0", b"\1", pack_vectors([np.ones(3, np.float32)]), b"\2\0" + bytes(6)]
)
def test_a_record_that_was_cut_is_refused(data: bytes, tmp_path: Path) -> None:
    whole = pack_vectors([np.ones(4, np.float32)] * 2)

    with pytest.raises(ValueError, match="was it cut") as caught:
        VectorFile(tmp_path / "v", [(0, 1, whole), (2, 7, data)])

    assert str(caught.value) == (
        f"the record of sample 7 of shard 2 has {len(data)} bytes: was it cut?"
    )


def test_a_record_without_vectors_is_refused_even_if_it_is_the_first(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="was it cut"):
        VectorFile(tmp_path / "v", [(0, 1, b"\0\0")])
