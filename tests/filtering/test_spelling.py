"""White space and the like make no other recipe; what json holds can be asked for."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.filtering.shards import digests, picture, write_shards
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards
from wdsflow.expressions.errors import ExpressionError
from wdsflow.filtering.run_differences import Differs

HERE = RunOptions(jobs=0)


@pytest.mark.deep
def test_another_spelling_is_the_same_recipe_to_the_last_byte(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=2, samples=8)
    one = Recipe(where="min_side >= 200 and caption_words > 2", scores=("bytes", "aspect_ratio"))
    other = Recipe(
        where="  min_side>=200\n  and (caption_words) > 2 ",
        scores=("bytes", " aspect_ratio", "bytes"),
    )
    filter_shards(source, tmp_path / "one", one, HERE)
    filter_shards(source, tmp_path / "other", other, HERE)
    assert digests(tmp_path / "one") == digests(tmp_path / "other")
    assert filter_shards(source, tmp_path / "one", other, HERE).resumed == 2
    with pytest.raises(Differs, match="where"):
        filter_shards(
            source, tmp_path / "one", Recipe(where="min_side > 200 and caption_words > 2"), HERE
        )


VALUES = [0.31, 0.1, 1, True, "0.5", None, {"a": 1}, 10**400, float("nan")]


def test_numbers_and_texts_of_the_json_are_terms_like_others(tmp_path: Path):
    members = []
    for number, value in enumerate(VALUES):
        tree = {"meta": {"similarity": value}, "license": "by" if number % 2 else "cc0"}
        members += [
            (f"{number}.jpg", picture(64, 64)),
            (f"{number}.json", json.dumps(tree).encode()),
        ]
    write_tar(
        tmp_path / "0.tar",
        [*members, ("x.jpg", picture(64, 64)), ("y.jpg", picture(9, 9)), ("y.json", b"{")],
    )
    recipe = Recipe(where="json_number('meta.similarity') > 0.3", scores=("json_text('license')",))
    report = filter_shards(str(tmp_path / "0.tar"), tmp_path / "out", recipe, HERE)
    rows = {
        row["key"]: row
        for row in pq.read_table(tmp_path / "out/.wdsflow/ledger/0.parquet").to_pylist()
    }
    assert [key for key, row in rows.items() if row["outcome"] == "kept"] == ["0", "2"]
    assert report.merged("dropped") == {'json_number(path="meta.similarity") > 0.3': 1}
    errors = {key: row["error"] for key, row in rows.items() if row["error"]}
    assert errors.pop("8")  # not a number is no number
    assert errors == {
        "3": "not-a-number",
        "4": "not-a-number",
        "5": "no-value",
        "6": "not-a-number",
        "7": "not-finite",
        "x": "no-json",
        "y": "bad-json",
    }
    assert rows["0"]['json_text(path="license")'] == "cc0"
    texts = Recipe(
        where="json_text('license') == 'by' and json_number(\"meta.similarity\") is not None"
    )
    report = filter_shards(str(tmp_path / "0.tar"), tmp_path / "texts", texts, HERE)
    assert report.total("kept") == 1


def test_a_name_that_is_near_is_told():
    for text, hint in (
        ("json_nmber('a') > 1", "json_number"),
        ("json_number('a', feild='x') > 1", "field"),
    ):
        with pytest.raises(ExpressionError, match=f"did you mean {hint}"):
            filter_shards("x.tar", "out", Recipe(where=text), HERE)
    with pytest.raises(ExpressionError, match="path"):
        filter_shards("x.tar", "out", Recipe(where="json_number() > 1"), HERE)
