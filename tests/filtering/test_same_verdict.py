"""A predicate has one meaning in ``filter`` and ``cut``.

What ``filter`` keeps is what a cut by the scores of all samples keeps.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.depth import cases
from tests.distributions import write_distribution
from tests.filtering.shards import picture
from tests.shards.archives import Entry, read_tar, write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.deciding.plan import plan_of
from wdsflow.filtering.deciding.sample_outcomes import set_outcomes
from wdsflow.filtering.ledger.read_ledger import read_ledger
from wdsflow.filtering.recipe.recipe import canonical_recipe
from wdsflow.stages.scores import Score, Tier, View

HERE = RunOptions(jobs=0)
IMAGES = [
    picture(20, 24),
    picture(20, 24, 1),
    picture(48, 40, 2),
    picture(20, 24, 2, "PNG"),
    b"no picture",
    None,
]
CAPTIONS = [None, b"", b"a", b" A ", b"two words", b"Two  words", b"a b c d e", b"\xff"]
TREES = [
    None,
    b"{}",
    b'{"n": 1}',
    b'{"n": 2.5, "t": "a"}',
    b'{"n": 9007199254740993}',
    b'{"n": null}',
    b"{",
]
CONDITIONS = [
    *(
        "width >= 30",
        "min_side < 24",
        "caption_words >= 2",
        "caption_length > 1",
        "caption_words is None",
        "blur > 5",
    ),
    *(
        "duplicate",
        'duplicate(among="kept")',
        "near_duplicate",
        "near_duplicate(distance=0)",
        "caption_count > 1",
    ),
    *(
        "near_duplicate(among='kept', distance=6)",
        "caption_count(among='kept') == 1",
        "any(caption_words > 1)",
    ),
    *(
        "has('json')",
        "json_number('n') > 1",
        "json_number('n') == 9007199254740992",
        "json_text('t') == 'a'",
    ),
    *("key < 'c'", "caption == 'a'", "bytes > 700"),
]
predicates = st.recursive(
    st.sampled_from(CONDITIONS),
    lambda inner: (
        st.builds("{} and {}".format, inner, inner)
        | st.builds("({} or {})".format, inner, inner)
        | st.builds("not ({})".format, inner)
    ),
    max_leaves=5,
)
samples = st.tuples(
    st.sampled_from("abcde"),
    st.sampled_from(IMAGES),
    st.sampled_from(CAPTIONS),
    st.sampled_from(TREES),
)
# A set without any caption, or name in json, is refused.
FIRST = (
    "a",
    picture(30, 30),
    b"a caption",
    b'{"n": 1, "t": "x"}',
)
shard_sets = st.lists(st.lists(samples, max_size=8), min_size=1, max_size=3).map(
    lambda sets: [[FIRST], *sets]
)


def members(shard: list[Any]) -> Iterator[Entry]:
    for key, *contents in shard:
        yield from (
            (f"{key}.{field}", data)
            for field, data in zip(("jpg", "txt", "json"), contents, strict=True)
            if data is not None
        )


def outcomes(out: Path) -> list[Any]:
    """Return what became of each sample, as the ledgers say, and what was written."""
    rows = [
        row
        for path in sorted(out.glob(".wdsflow/ledger/*"))
        for row in pq.read_table(path).to_pylist()
    ]
    found: list[Any] = [
        [row[name] for name in ("key", "outcome", "term", "error", "detail")] for row in rows
    ]
    return [*found, *((path.name, read_tar(path)) for path in sorted(out.glob("**/*.tar")))]


def decided_by(scored: Path, recipe: Recipe) -> list[Any]:
    """Return what a recipe says of the values in ledgers, as they are."""
    found = []
    for path in sorted(scored.glob(".wdsflow/ledger/*")):
        samples, _ = read_ledger(path)
        set_outcomes(plan_of(canonical_recipe(recipe)), samples)
        found += [[row.key, row.outcome, row.term, row.error, row.detail] for row in samples.rows]
    return found


@cases(2)
@given(shard_sets, predicates, st.sampled_from(["quarantine", "keep", "drop"]))
def test_a_filter_keeps_what_a_cut_by_the_scores_of_all_samples_keeps(shards, where, unknown):
    with TemporaryDirectory() as name:
        folder, recipe = Path(name), Recipe(where=where, unknown=unknown)
        for number, shard in enumerate(shards):
            write_tar(folder / f"{number}.tar", members(shard))
        calls = tuple(map(str, plan_of(canonical_recipe(recipe)).scores))
        measure_shards(name, folder / "scored", Recipe(scores=calls), HERE)
        filter_shards(name, folder / "cut", recipe, HERE, ledger=folder / "scored")
        filter_shards(name, folder / "filtered", recipe, HERE)
        cut = outcomes(folder / "cut")
        assert cut == outcomes(folder / "filtered")
        if "kept" not in where:
            for one, other in zip(decided_by(folder / "scored", recipe), cut, strict=False):
                assert one == other or other[3] == "same-key"


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Two shards with two images, three and two times, the first of each with a short caption."""
    folder = tmp_path_factory.mktemp("copies")
    one, two = picture(40, 40, 1), picture(40, 40, 2)
    shards = [
        [("a", one, b"short"), ("b", two, b"short")],
        [("c", one, b"x y"), ("d", one, b"X  Y"), ("e", two, b"y z")],
    ]
    for number, shard in enumerate(shards):
        write_tar(folder / f"{number}.tar", members([(*sample, None) for sample in shard]))
    measure_shards(
        str(folder),
        folder / "scored",
        Recipe(scores=("duplicate", "near_duplicate", "caption_count", "caption_words")),
        HERE,
    )
    return folder


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("duplicate", "cde"),
        ("caption_words >= 2 and duplicate", "cde"),
        ("caption_words >= 2 and not duplicate", ""),
        ('caption_words >= 2 and not duplicate(among="kept")', "ce"),
        ('caption_words >= 2 and duplicate(among="kept")', "d"),
        ('caption_words >= 2 and not near_duplicate(among="kept", distance=6)', "ce"),
        ("caption_words >= 2 and caption_count >= 2", "cd"),
        ('caption_count >= 2 and not duplicate(among="kept")', "ab"),
        ('caption_count == 1 and not duplicate(among="kept")', "e"),
        ('caption_words < 9 and caption_count(among="kept") == 2', "abcd"),
    ],
)
@pytest.mark.parametrize("how", ["filter", "cut"])
def test_scores_that_compare_samples_compare_all_unless_those_kept_are_asked_for(
    copies, tmp_path, where, kept, how
):
    run = {
        "filter": filter_shards,
        "cut": lambda urls, out, *rest: filter_shards(urls, out, *rest, ledger=copies / "scored"),
    }
    run[how](str(copies), tmp_path, Recipe(where=where), HERE)
    names = [name for path in sorted(tmp_path.glob("*.tar")) for name, _ in read_tar(path)]
    assert "".join(name[0] for name in names if name.endswith("jpg")) == kept


@pytest.mark.deep
def test_a_ledger_has_the_same_values_whatever_was_dropped(copies, tmp_path):
    filter_shards(str(copies), tmp_path, Recipe(where="caption_words >= 2 and duplicate"), HERE)
    for name in ("0", "1"):
        here, there = (
            pq.read_table(out / f".wdsflow/ledger/{name}.parquet")
            for out in (tmp_path, copies / "scored")
        )
        assert here["duplicate"].to_pylist() == there["duplicate"].to_pylist()
    # So a folder that filter wrote serves for other cuts as well.
    filter_shards(
        str(copies), tmp_path / "cut", Recipe(where="not duplicate"), HERE, ledger=tmp_path
    )
    assert json.loads((tmp_path / "cut" / "__len__").read_text()) == 2


@pytest.mark.deep
@pytest.mark.parametrize(
    "where",
    ["not duplicate", "caption_words >= 1 and not near_duplicate(among='kept', distance=6)"],
)
def test_what_a_ledger_lacks_to_compare_samples_is_gathered(copies, tmp_path, where):
    some = Recipe(where='caption_words >= 2 and not duplicate(among="kept")')
    filter_shards(str(copies), tmp_path / "some", some, HERE)
    filter_shards(
        str(copies), tmp_path / "with", Recipe(where=where), HERE, ledger=tmp_path / "some"
    )
    filter_shards(str(copies), tmp_path / "without", Recipe(where=where), HERE)
    assert outcomes(tmp_path / "with") == outcomes(tmp_path / "without")


@dataclass(frozen=True, kw_only=True)
class Perhaps(Score):
    """A custom score that has no value for some samples, and says so by None."""

    name: ClassVar[str] = "perhaps"
    tier: ClassVar[Tier] = "header"

    def score(self, view: View) -> float | None:
        return None if view.key < "c" else 1.0


@pytest.mark.deep
def test_a_score_without_a_value_is_unknown_to_a_cut_as_well(copies, tmp_path, monkeypatch):
    entries = {"wdsflow.scores": {"perhaps": f"{__name__}:Perhaps"}}
    write_distribution(tmp_path, "perhaps", entries)
    monkeypatch.syspath_prepend(str(tmp_path))
    measure_shards(str(copies), tmp_path / "scored", Recipe(scores=("perhaps",)), HERE)
    for unknown in ("quarantine", "keep"):
        recipe = Recipe(where="perhaps > 0", unknown=unknown)
        filter_shards(
            str(copies), tmp_path / f"cut-{unknown}", recipe, HERE, ledger=tmp_path / "scored"
        )
        filter_shards(str(copies), tmp_path / f"filter-{unknown}", recipe, HERE)
        assert outcomes(tmp_path / f"cut-{unknown}") == outcomes(tmp_path / f"filter-{unknown}")
