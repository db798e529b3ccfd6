"""A filter decides on samples as plain Python does by a finished ledger.

The values in the ledger are of any tier.
"""

import ast
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.expressions import drawing
from tests.expressions.reference import meaning
from tests.filtering.shards import picture
from tests.shards.archives import Entry, write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.expression import Expression
from wdsflow.filtering.deciding.plan import FilterPlan
from wdsflow.filtering.deciding.sample_outcomes import set_outcomes
from wdsflow.filtering.ledger.read_ledger import read_ledger
from wdsflow.filtering.predicates.catalog import parse, parse_score
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.stages.scores import all_scores

HERE = RunOptions(jobs=0)
NUMBERS = [
    "width",
    "height",
    "bytes",
    "blur",
    "brightness",
    "caption_words",
    "json_number(path='a.b')",
]
TEXTS = ["caption", "key", "format", "json_text(path='t')"]
CONDITIONS = ["duplicate", "has(field='json')", "has(field='txt')"]
IMAGES = [
    picture(20, 24),
    picture(48, 40, 2),
    picture(20, 24, 2, "PNG"),
    picture(60, 60, 3)[:400],
    b"no picture",
    None,
]
CAPTIONS = [None, b"", b"a", b"Cat", b" two  words", b"\xff", "猫 é".encode()]
TREES = [
    None,
    b"{",
    b"{}",
    b'{"a": {"b": 1}, "t": "a"}',
    b'{"a": {"b": -2.5}, "t": 5}',
    b'{"a": {"b": null}, "t": "Cat"}',
]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a shard, and with the ledger of all its scores."""
    folder, random = tmp_path_factory.mktemp("finished"), Random(1)
    entries: list[Entry] = []
    for number in range(80):
        contents = (random.choice(IMAGES), random.choice(CAPTIONS), random.choice(TREES))
        fields = zip(("jpg", "txt", "json"), contents, strict=True)
        entries += [(f"{number:03}.{field}", data) for field, data in fields if data is not None]
        entries.append((f"{number:03}.cls", b"1"))
    write_tar(folder / "0.tar", entries)
    measure_shards(
        str(folder / "0.tar"),
        folder / "scored",
        Recipe(scores=(*NUMBERS, *TEXTS, *CONDITIONS)),
        HERE,
    )
    return folder


@pytest.fixture(scope="module")
def values(scored: Path) -> list[dict[str, Any]]:
    """Return the values of each sample, as plain Python takes them."""
    samples, _ = read_ledger(scored / "scored" / ".wdsflow" / "ledger" / "0.parquet")
    columns = {
        name: samples.columns[parse_score(name, all_scores())]
        for name in (*NUMBERS, *TEXTS, *CONDITIONS)
    }
    found: list[dict[str, Any]] = []
    for row in samples.rows:
        cells = {name: column[row.number] for name, column in columns.items()}
        found.append(
            {name: [None if isinstance(cell, Unknown) else cell] for name, cell in cells.items()}
        )
    return found


@pytest.fixture(autouse=True)
def real_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw expressions over the scores of the ledger."""
    for name, scores in (("NUMBERS", NUMBERS), ("TEXTS", TEXTS), ("CONDITIONS", CONDITIONS)):
        monkeypatch.setattr(drawing, name, scores)


def drawn(random: Random) -> Expression:
    while True:
        text = drawing.expression(random)
        try:
            if len(text) < 1500:
                return parse(text, all_scores())
        except ExpressionError:
            # A part of constants may be refused.
            continue


def outcomes(expression: Expression, values: list[dict[str, Any]]) -> list[str]:
    """Return what plain Python says."""
    terms = [ast.unparse(ast.parse(str(term), mode="eval")) for term in expression.terms]
    found = []
    for sample in values:
        results = [meaning(term, sample) for term in terms]
        found.append(
            "dropped" if False in results else "quarantined" if None in results else "kept"
        )
    return found


@pytest.mark.parametrize("count", [40, pytest.param(300, marks=pytest.mark.deep)])
def test_a_ledger_is_decided_as_by_plain_python(scored, values, count):
    random, seen = Random(count), set()
    for _ in range(count):
        expression = drawn(random)
        samples, _ = read_ledger(scored / "scored" / ".wdsflow" / "ledger" / "0.parquet")
        set_outcomes(FilterPlan(Recipe(where=str(expression))), samples)
        expected = outcomes(expression, values)
        assert [row.outcome for row in samples.rows] == expected, str(expression)
        seen.add(tuple(expected))
    assert len(seen) > count // 4


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(3))
def test_a_filter_decides_as_by_plain_python_whether_it_computes_a_score_or_not(
    scored, values, tmp_path, seed
):
    random, shard = Random(seed), str(scored / "0.tar")
    some = random.sample((*NUMBERS, *TEXTS), 4)
    measure_shards(shard, tmp_path / "some", Recipe(scores=some), HERE)
    compared = 0
    while compared < 3:
        expression = drawn(random)
        recipe, out = Recipe(where=str(expression)), tmp_path / str(compared)
        try:
            filter_shards(shard, out, recipe, HERE)
        except ExpressionError:
            # One that never holds, or always does, is refused.
            continue
        compared += 1
        filter_shards(shard, out / "by_ledger", recipe, HERE, ledger=tmp_path / "some")
        expected = outcomes(expression, values)
        for folder in (out, out / "by_ledger"):
            samples = read_outcomes(folder)
            assert samples == expected, str(expression)


def read_outcomes(folder: Path) -> list[str]:
    """Return the outcomes in a ledger."""
    table = pq.read_table(folder / ".wdsflow" / "ledger" / "0.parquet", columns=["outcome"])
    return [str(outcome) for outcome in table.column("outcome").to_pylist()]
