"""Scores that compare samples are queries over ledgers.

They work whatever the folder and columns are named, and whatever the samples have.
"""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.filtering.shards import picture
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards

HERE = RunOptions(jobs=0)


def column(out: Path, name: str) -> dict[str, object]:
    """Return the values of a column of ledgers by key; those of a sample with several as a list."""
    values: dict[str, object] = {}
    for path in sorted(out.glob(".wdsflow/ledger/*")):
        for row in pq.ParquetFile(path).read().to_pylist():
            several = json.loads(row["several"]) if row["several"] else {}
            values[row["key"]] = several.get(name, row[name])
    return values


def write(folder: Path, *shards: dict[str, dict[str, bytes]]) -> str:
    folder.mkdir(parents=True)
    for number, samples in enumerate(shards):
        members = [
            (f"{key}.{field}", data)
            for key, fields in samples.items()
            for field, data in fields.items()
        ]
        write_tar(folder / f"{number}.tar", members)
    return str(folder)


def in_json(**values: object) -> dict[str, bytes]:
    return {"txt": b"a caption", "json": json.dumps(values).encode()}


@pytest.mark.deep
@pytest.mark.parametrize("name", ["key=3", "a[1]b*", "50%?'s"])
def test_the_name_of_the_folder_does_not_matter(tmp_path, name):
    image = picture(20, 24)
    shards = (
        {"a": {"jpg": image}, "b": {"jpg": image}},
        {"c": {"jpg": image}, "d": {"jpg": picture(30, 30)}},
    )
    urls = write(tmp_path / "in", *shards)
    measure_shards(
        urls,
        tmp_path / name,
        Recipe(scores=("duplicate", "width", "rank_percent(of='width')")),
        HERE,
    )
    assert column(tmp_path / name, "duplicate") == {"a": False, "b": True, "c": True, "d": False}
    assert column(tmp_path / name, 'rank_percent(of="width")') == {
        "a": 50,
        "b": 75,
        "c": 100,
        "d": 25,
    }


def test_names_that_differ_in_case_alone_are_told_apart(tmp_path):
    samples = {f"k{number}": in_json(n=number, N=number % 3) for number in range(6)}
    scores = (
        "json_number('n')",
        "json_number('N')",
        "rank_percent(of=\"json_number('N') * 10 + json_number('n')\")",
    )
    urls = write(tmp_path / "in", samples)
    measure_shards(urls, tmp_path / "out", Recipe(scores=scores), HERE)
    (ranks,) = [
        name
        for name in pq.read_schema(next(tmp_path.glob("out/.wdsflow/ledger/*"))).names
        if "rank" in name
    ]
    order = sorted(range(6), key=lambda number: -(number % 3 * 10 + number))
    expected = {f"k{number}": pytest.approx(100 * rank / 6) for rank, number in enumerate(order, 1)}
    assert column(tmp_path / "out", ranks) == expected


def test_each_of_several_images_is_compared_and_the_worst_is_ranked(tmp_path):
    small, large = picture(20, 20), picture(60, 60)
    samples = {
        "one": {"jpg": small},
        "two": {"0.jpg": large, "1.jpg": small},
        "bad": {"0.jpg": large, "1.jpg": b"no image"},
        "none": {"txt": b"a"},
        "last": {"jpg": large},
    }
    urls = write(tmp_path / "in", samples)
    best, least = "rank_percent(of='width')", "rank_percent(of='width', end='bottom')"
    measure_shards(urls, tmp_path / "out", Recipe(scores=("duplicate", best, least)), HERE)
    expected = {
        "one": False,
        "two": [False, True],
        "bad": [True, False],
        "none": None,
        "last": True,
    }
    assert column(tmp_path / "out", "duplicate") == expected
    # The smaller of two images counts where large ones are
    # best, and the larger one where small ones are.
    ranks = column(tmp_path / "out", 'rank_percent(of="width")')
    assert ranks == {
        "one": pytest.approx(200 / 3),
        "two": 100,
        "bad": None,
        "none": None,
        "last": pytest.approx(100 / 3),
    }
    ranks = column(tmp_path / "out", 'rank_percent(end="bottom", of="width")')
    assert ranks == {
        "one": pytest.approx(100 / 3),
        "two": 100,
        "bad": None,
        "none": None,
        "last": pytest.approx(200 / 3),
    }


@pytest.mark.deep
def test_data_gathered_for_another_distance_is_compared_again(tmp_path):
    samples = {f"k{number}": {"jpg": picture(40, 40, number // 2)} for number in range(6)}
    urls = write(tmp_path / "in", samples)
    measure_shards(urls, tmp_path / "scored", Recipe(scores=("near_duplicate(distance=2)",)), HERE)
    recipe = Recipe(where="not near_duplicate(distance=0)")
    filter_shards(urls, tmp_path / "from-ledger", recipe, HERE, ledger=tmp_path / "scored")
    filter_shards(urls, tmp_path / "direct", recipe, HERE)
    outcomes = {f"k{number}": "dropped" if number % 2 else "kept" for number in range(6)}
    assert (
        column(tmp_path / "from-ledger", "outcome")
        == column(tmp_path / "direct", "outcome")
        == outcomes
    )
