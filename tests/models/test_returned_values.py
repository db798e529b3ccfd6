"""What custom scores may return: one value for each item, in many forms, and nothing else."""

import json
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from tests.models import own
from tests.pictures import encoded, photo
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.deciding.broken_scores import BrokenRunError
from wdsflow.stages.scores import View

HERE = RunOptions(jobs=0, device="cpu")
KINDS = {
    "odd_plain": "score()",
    "odd_pixels": "of()",
    "odd_text": "of()",
    "odd_dataset": "resolve()",
    "odd_batch": "score()",
}
REFUSED = {
    "none": "raised-TypeError: {} returned None: it must return a number for each item",
    "nan": "not-finite: {} returned nan",
    "inf": "not-finite: {} returned inf",
    "nested": "raised-TypeError: {} returned a list of 1 value: it must return a number for each item",
    "dict": "raised-TypeError: {} returned a dict: it must return a number for each item",
    "flag": "raised-TypeError: {} returned True: it must return a number for each item",
    "text": "raised-TypeError: {} returned a str: it must return a number for each item",
    "pair": "raised-TypeError: {} returned a list of 2 values: ",
    "empty": "raised-TypeError: {} returned a list of 0 values: ",
    "array": "raised-TypeError: {} returned a",
}
PICTURE = encoded(photo(8, 8), "PNG")


def shard(path: Any, samples: int = 3) -> str:
    members = [
        (f"{number}.{field}", data)
        for number in range(samples)
        for field, data in (("png", PICTURE), ("txt", b"a"))
    ]
    path.parent.mkdir(exist_ok=True)
    write_tar(path, members)
    return str(path)


def ledger(out: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(out / ".wdsflow/ledger/0.parquet").to_pylist()
    return found


def calls(*gives: str) -> tuple[str, ...]:
    return tuple(f'{kind}(gives="{each}")' for kind in KINDS for each in gives)


def test_values_of_python_numpy_and_torch_are_numbers(tmp_path):
    source = shard(tmp_path / "0.tar", 1)
    shapes = [
        f'odd_batch(gives="int", together="{each}")'
        for each in ("tuple", "generator", "(n,)", "(n, 1)", "squeezed")
    ]
    asked = (*calls("int", "numpy", "numpy 0-d", "numpy 1", "torch 0-d", "torch half"), *shapes)
    measure_shards(source, tmp_path / "out", Recipe(scores=asked), HERE)
    (row,) = ledger(tmp_path / "out")
    assert row["failed"] is None
    assert {name: row[name] for name in asked} == dict.fromkeys(asked, 3.0)


def test_what_is_no_single_value_is_refused_by_what_it_is(tmp_path):
    source = shard(tmp_path / "0.tar")
    measure_shards(source, tmp_path / "out", Recipe(scores=calls(*REFUSED)), HERE)
    rows = ledger(tmp_path / "out")
    assert rows
    for row in rows:
        told = {each["score"]: f"{each['error']}: {each['detail']}" for each in row["failed"]}
        assert list(map(row.get, calls(*REFUSED))) == [None] * len(told)
        for kind, method in KINDS.items():
            for each, expected in REFUSED.items():
                assert told.pop(f'{kind}(gives="{each}")').startswith(expected.format(method))
        assert not told


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS)
def test_nan_and_two_values_keep_nothing_in_filter_and_in_cut(tmp_path, kind):
    source = shard(tmp_path / "0.tar")
    for gives, error in (("inf", "not-finite"), ("pair", "raised-TypeError")):
        recipe = Recipe(where=f'{kind}(gives="{gives}") > 0')
        filtered = filter_shards(source, tmp_path / gives, recipe, HERE)
        cut = filter_shards(
            source, tmp_path / f"cut-{gives}", recipe, HERE, ledger=tmp_path / gives
        )
        for report in (filtered, cut):
            assert (report.total("kept"), report.merged("quarantined")) == (0, {error: 3})


def test_several_items_have_a_value_each_and_no_other_number_of_values(tmp_path):
    members = [
        ("a.0.png", PICTURE),
        ("a.1.png", PICTURE),
        ("a.json", json.dumps({"texts": ["x", "y", "z"]}).encode()),
    ]
    write_tar(tmp_path / "0.tar", members)
    asked = calls("int", "pair")
    measure_shards(
        str(tmp_path / "0.tar"), tmp_path / "out", Recipe(scores=asked, caption="json:texts"), HERE
    )
    (row,) = ledger(tmp_path / "out")
    several = json.loads(row["several"])
    assert several.pop('odd_pixels(gives="int")') == several.pop('odd_batch(gives="int")') == [3, 3]
    assert several.pop('odd_text(gives="int")') == [3, 3, 3]
    # For two images, two values are what is wanted of these.
    assert (
        several.pop('odd_plain(gives="pair")') == several.pop('odd_dataset(gives="pair")') == [1, 2]
    )
    assert not several
    assert [each["score"] for each in row["failed"]] == [
        f'{kind}(gives="pair")' for kind in ("odd_pixels", "odd_text", "odd_batch")
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("together", "message"),
    [
        (
            "(n, 2)",
            r"score\(\) returned an array of shape \(2, 2\) for 2 items: the shape must be \(2,\)",
        ),
        ("(1, n)", r"score\(\) returned an array of shape \(1, 2\) for 2 items"),
        ("none", r"score\(\) returned None for 2 items"),
        ("number", r"score\(\) returned a float for 2 items"),
        ("dict", r"score\(\) returned a dict for 2 items"),
        ("text", r"score\(\) returned a str for 2 items"),
        ("few", r"score\(\) returned 1 value for 2 items"),
    ],
)
def test_a_batch_whose_values_belong_to_no_item_ends_the_run(tmp_path, together, message):
    recipe = Recipe(where=f'odd_batch(gives="int", together="{together}") > 0')
    with pytest.raises(BrokenRunError, match=f"0.tar: odd_batch: {message}"):
        filter_shards(shard(tmp_path / "0.tar"), tmp_path / "out", recipe, HERE)
    assert not list((tmp_path / "out").glob("*.tar"))


@pytest.mark.sample(2)
@pytest.mark.parametrize("call", calls("none"))
def test_a_score_that_returns_none_for_a_hundred_samples_ends_the_run(tmp_path, call):
    said = f"TypeError: {KINDS[call.partition('(')[0]]} returned None"
    with pytest.raises(BrokenRunError) as raised:
        measure_shards(
            shard(tmp_path / "0.tar", 120), tmp_path / "out", Recipe(scores=(call,)), HERE
        )
    assert "failed for each of the first 100 samples" in str(raised.value)
    assert str(raised.value).count("TypeError") == 1
    assert said in str(raised.value)


def test_a_comparison_may_refuse_fewer_than_a_hundred_samples(tmp_path):
    recipe = Recipe(scores=('odd_dataset(gives="none")',))
    measure_shards(shard(tmp_path / "0.tar", 99), tmp_path / "out", recipe, HERE)
    assert [each["error"] for row in ledger(tmp_path / "out") for each in row["failed"]] == [
        "raised-TypeError"
    ] * 99
    more = shard(tmp_path / "more" / "0.tar", 100)
    with pytest.raises(BrokenRunError, match=r"odd_dataset\(.* first 100 samples.* sample 99 of"):
        measure_shards(more, tmp_path / "others", recipe, HERE)


def test_a_score_of_a_model_that_a_ledger_lacks_is_computed(tmp_path):
    source, scored = shard(tmp_path / "0.tar"), tmp_path / "scored"
    measure_shards(source, scored, Recipe(scores=("bytes",)), HERE)
    recipe = Recipe(where='bytes > 0 and odd_batch(gives="int") == 3')
    report = filter_shards(source, tmp_path / "out", recipe, HERE, ledger=scored)
    assert report.total("kept") == 3


def test_a_comparison_that_fails_is_told_by_its_score(tmp_path):
    recipe = Recipe(scores=('odd_dataset(gives="raise")',))
    with pytest.raises(
        BrokenRunError,
        match=r"^odd_dataset\(gives=\"raise\"\): resolve\(\) raised KeyError: 'weights'$",
    ):
        measure_shards(shard(tmp_path / "0.tar"), tmp_path / "out", recipe, HERE)


def test_a_custom_score_of_pairs_gets_the_first_image_with_each_caption():
    score = own.WidthAndWords()
    fields = {f"{at}.png": encoded(photo(width, 20), "PNG") for at, width in enumerate((30, 50))}
    view = View({**fields, "0.txt": b"one", "1.txt": b"two words"})
    items = [request.make() for request in score.requests(view)]
    (model,) = score.models()
    assert score.value(view, model.run(model.load("cpu"), items)) == [30.1, 30.2]
    assert [model.cost(item) for item in items] == [30 * 20 + 3, 30 * 20 + 9]
    assert model.display_name() == "width_and_words"
    assert model.identity() == score.identity()
    assert score.identity()["revision"] == 7
