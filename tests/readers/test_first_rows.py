"""What the first samples decide for readers that make columns of them, from tars to verdicts."""

import io
from pathlib import Path

import numpy as np
import pytest

from tests.validate.rules.build import Members, jpeg, pairs, tar, words
from wdsflow import check
from wdsflow.readers.datasets_columns import first_columns
from wdsflow.shards.source.base import single_shard
from wdsflow.validate import Verdict


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def judged(
    folder: Path, *shards: Members, reader: str = "datasets", level: str = "full"
) -> Verdict:
    for number, members in enumerate(shards):
        (folder / f"{number}.tar").write_bytes(tar(members))
    return check(folder, [reader], level=level).verdicts[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "later", "outcome"),
    [
        ({"a": 1}, {"a": "s"}, "crashes"),
        ({"a": 1}, {"a": "7"}, "trains"),
        ({"a": 1}, {"a": None, "b": "s"}, "trains"),
        ({"a": "s"}, {"a": [1, {"b": 2}]}, "trains"),
        ({"a": [1]}, {"a": 1}, "crashes"),
        ({"a": {"b": 1}}, {"a": "s"}, "crashes"),
        ({"a": None}, {"a": "s"}, "trains"),
    ],
)
@pytest.mark.parametrize("level", ["headers", "full"])
def test_json_of_another_type_ends_datasets_at_its_sample(
    first: object, later: object, outcome: str, level: str, tmp_path: Path
) -> None:
    start = pairs(6, json=words(first))
    verdict = judged(
        tmp_path, [*start, *pairs(2, start=6, json=words(later))], pairs(1, start=8), level=level
    )

    assert (verdict.outcome, verdict.usable) == (outcome, 6 if outcome == "crashes" else 9)
    assert verdict.exact == (level == "full")


def test_first_samples_that_do_not_agree_end_datasets_at_once(tmp_path: Path) -> None:
    verdict = judged(
        tmp_path, [*pairs(1, json=words({"a": 1})), *pairs(1, start=1, json=words({"a": 1.5}))]
    )

    assert (verdict.outcome, verdict.usable, verdict.exact) == ("crashes", 0, True)
    assert [reason.slug for reason in verdict.reasons] == ["types"]


@pytest.mark.parametrize(
    ("field", "data", "reader", "exact"),
    [
        ("mp3", b"ID3", "datasets", False),
        ("ten", b"", "datasets", False),
        ("txt.zst", b"", "datasets", False),
        ("npy", npy(np.zeros(3)), "datasets", True),
        ("bin", b"\0", "datasets", True),
        ("mp3", b"ID3", "ray-data", True),
        ("npy", npy(np.zeros(3)), "ray-data", True),
        ("npy", npy(np.zeros(3, dtype="c8")), "ray-data", False),
    ],
)
def test_a_verdict_on_a_column_that_was_not_judged_is_not_exact(
    field: str, data: bytes, reader: str, exact: bool, tmp_path: Path
) -> None:
    verdict = judged(tmp_path, pairs(3, **{field: data}), reader=reader)

    assert verdict.exact == exact
    assert bool(verdict.note) != exact
    assert exact or field in verdict.note


@pytest.mark.parametrize("modes", [("L", "RGB"), ("L", "L"), ("CMYK", "RGB")])
def test_grey_and_coloured_pictures_may_not_fit_into_one_tensor_of_ray(
    modes: tuple[str, str], tmp_path: Path
) -> None:
    members = [
        (f"{n}.{name}", data) for n, mode in enumerate(modes) for name, data in _pair(mode).items()
    ]

    assert judged(tmp_path, members, reader="ray-data").exact == (
        "L" not in modes or modes[0] == modes[1]
    )


def _pair(mode: str) -> dict[str, bytes]:
    return {"jpg": jpeg(mode=mode), "txt": b"a dog"}


def test_only_the_first_samples_are_read_for_the_columns(tmp_path: Path) -> None:
    shard = tmp_path / "a.tar"
    rest = [("9.json", words({"b": 1})), ("__meta__.json", b"{}"), (".hidden.json", b"{}")]
    shard.write_bytes(tar([*rest[1:], *pairs(5, json=words({"a": 1})), *rest]))

    columns = first_columns(single_shard(str(shard)))

    assert columns.kinds["json"].names == ("a",)
    assert first_columns(single_shard(str(tmp_path / "missing.tar"))).unknown
