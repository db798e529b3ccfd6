"""Custom scores that fail.

A failure for one sample costs only that sample; a failure for all samples ends the run.
"""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.deciding.broken_scores import BrokenRunError

HERE = RunOptions(jobs=0, device="cpu")
ONE_BAD = [f"a caption {number}" if number != 7 else "a bad caption" for number in range(20)]


def captioned(path: Path, texts: list[str]) -> str:
    path.parent.mkdir(exist_ok=True)
    write_tar(path, [(f"{number:05d}.txt", text.encode()) for number, text in enumerate(texts)])
    return str(path)


def reasons(out: Path) -> list[tuple[int, str, str]]:
    lines = (out / ".wdsflow/quarantine/0.jsonl").read_text().splitlines()
    return [(line["sample"], line["error"], line["detail"]) for line in map(json.loads, lines)]


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("score", "error", "detail"),
    [
        ("faulty", "raised-ValueError", "what a\ncaption"),
        ('faulty(at="requests")', "raised-KeyError", "'caption'"),
        ('faulty(at="make")', "raised-IndexError", "no such word"),
        ('faulty(at="import")', "raised-ModuleNotFoundError", "No module named 'a_module_that_is_not_there'"),
        ('faulty(at="exit")', "raised-SystemExit", "usage: faulty"),
        ('faulty(at="other type")', "raised-TypeError", "value() returned a dict: it must return a number for each item"),
        ('faulty(at="large")', "raised-OverflowError", "int too large to convert to float"),
        ("faulty_batch", "raised-ValueError", "a bad caption is among these (cost 13)"),
        ("faulty_plain", "raised-ZeroDivisionError", "division by zero"),
        ('faulty_plain(at="other type")', "raised-TypeError", "score() returned an object: it must return a number for each item"),
    ],
)  # fmt: skip
def test_an_error_in_a_score_costs_its_sample_and_is_told_by_class_and_text(
    tmp_path, score, error, detail
):
    source = captioned(tmp_path / "0.tar", ONE_BAD)
    report = filter_shards(source, tmp_path / "out", Recipe(where=f"{score} >= 1"), HERE)
    assert (report.total("kept"), report.merged("quarantined")) == (19, {error: 1})
    assert reasons(tmp_path / "out") == [(7, error, detail)]


def test_the_first_samples_may_fail_where_another_has_a_value(tmp_path):
    source = captioned(tmp_path / "0.tar", ["bad"] * 99 + ["good"] + ["bad"] * 200)
    report = filter_shards(source, tmp_path / "out", Recipe(where="faulty >= 1"), HERE)
    assert (report.total("kept"), report.merged("quarantined")) == (1, {"raised-ValueError": 299})


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("score", "workers"),
    [
        ("faulty", 0),
        ('faulty(at="import")', 0),
        ("faulty_batch", 0),
        ("faulty_plain", 0),
        pytest.param("faulty_batch", 2, marks=pytest.mark.deep),
    ],
)
def test_a_score_that_fails_for_all_samples_ends_the_run_by_its_name(tmp_path, score, workers):
    for number in range(3):
        source = captioned(tmp_path / f"in/{number}.tar", [f"bad {each}" for each in range(150)])
    source = str(tmp_path / "in")
    options = RunOptions(jobs=workers, device="cpu")
    with pytest.raises(
        BrokenRunError, match=r"failed for each of the first 100 samples\. .* At 000"
    ) as raised:
        filter_shards(source, tmp_path / "out", Recipe(where=f"{score} >= 1"), options)
    assert str(raised.value).count("Error: ") == 1  # the class once, then the text
    assert score in str(raised.value)
    assert not list((tmp_path / "out").glob("*.tar"))
    assert not list((tmp_path / "out").rglob("quarantine/*"))
    with pytest.raises(BrokenRunError):
        measure_shards(source, tmp_path / "scores", Recipe(scores=(score,)), options)


@pytest.mark.deep
def test_small_shards_are_told_together_and_are_not_done(tmp_path):
    for number in range(60):
        captioned(tmp_path / f"in/{number:02d}.tar", [f"bad {each}" for each in range(4)])
    with pytest.raises(
        BrokenRunError, match="faulty_plain failed for each of the first 100 samples"
    ):
        filter_shards(
            str(tmp_path / "in"), tmp_path / "out", Recipe(where="faulty_plain >= 1"), HERE
        )
    assert (tmp_path / "out/.wdsflow/manifest.jsonl").read_bytes() == b""


def test_fewer_samples_than_that_are_put_aside_and_a_second_run_finds_all_done(tmp_path):
    source = captioned(tmp_path / "0.tar", ["bad"] * 20)
    recipe = Recipe(where="faulty >= 1")
    report = filter_shards(source, tmp_path / "out", recipe, HERE)
    assert (report.total("kept"), report.merged("quarantined")) == (0, {"raised-ValueError": 20})
    assert filter_shards(source, tmp_path / "out", recipe, HERE).resumed == 1


def test_one_shard_of_a_kind_that_a_score_cannot_take_is_told_and_the_others_are_done(tmp_path):
    captioned(tmp_path / "in/0.tar", ["good"] * 5)
    captioned(tmp_path / "in/1.tar", ["bad"] * 150)
    captioned(tmp_path / "in/2.tar", ["good"] * 5)
    report = filter_shards(
        str(tmp_path / "in"), tmp_path / "out", Recipe(where="faulty >= 1"), HERE
    )
    assert [failure.name for failure in report.failures] == ["1.tar"]
    assert "first 100 samples" in report.failures[0].reason
    assert report.total("kept") == 10


def test_values_of_numpy_are_numbers(tmp_path):
    source = captioned(tmp_path / "0.tar", ["abc", "a longer one"])
    report = filter_shards(
        source,
        tmp_path / "out",
        Recipe(where="faulty_plain > 3 and not faulty_batch < 4", scores=("faulty_batch",)),
        HERE,
    )
    assert report.total("kept") == 1
    rows = pq.read_table(tmp_path / "out/.wdsflow/ledger/0.parquet").to_pylist()
    assert [row["faulty_batch"] for row in rows] == [3.0, 12.0]


def test_samples_that_a_score_refuses_itself_say_nothing_of_it(tmp_path):
    source = captioned(tmp_path / "0.tar", ["no image"] * 150)
    report = filter_shards(source, tmp_path / "out", Recipe(where="brightest > 1"), HERE)
    assert report.merged("quarantined") == {"no-image": 150}
