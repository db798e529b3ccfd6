"""``--keep "clip_similarity top 30%"``: exact over all shards, however the run is made."""

import json
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.filtering.commands import run
from tests.filtering.shards import digests
from tests.shards.archives import write_tar
from wdsflow.filtering.predicates.sample_facts import RankPercent
from wdsflow.stages.scores.comparing.compared_table import CREATE_COMPARED
from wdsflow.tables import Tables

SHARDS, SAMPLES = 3, 25


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Samples with a number in their json; some numbers are equal, every tenth sample has none."""
    folder = tmp_path_factory.mktemp("keep")
    (folder / "in").mkdir()
    draw = random.Random(5)
    keys = draw.sample(range(1000), SHARDS * SAMPLES)
    for shard in range(SHARDS):
        members = []
        for place in range(shard * SAMPLES, (shard + 1) * SAMPLES):
            tree = {"n": draw.randrange(9) / 4} if place % 10 else {}
            members += [
                (f"{keys[place]:03d}.txt", b"w " * (place % 4 + 1)),
                (f"{keys[place]:03d}.json", json.dumps(tree).encode()),
            ]
        write_tar(folder / "in" / f"{shard}.tar", members)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        scores = "json_number('n'),caption_words"
        assert run("measure", "in", "-o", "scored", "--scores", scores, "--jobs", 0).status == 0
    return folder


@pytest.fixture
def samples(sets, monkeypatch):
    """(key, number, words) of each sample; in its folder."""
    monkeypatch.chdir(sets)
    table = pq.ParquetDataset("scored/.wdsflow/ledger").read().to_pydict()
    return [*zip(table["key"], table['json_number(path="n")'], table["caption_words"], strict=True)]


def kept(out: Path) -> set[str]:
    table = pq.ParquetDataset(out / ".wdsflow/ledger").read(["key", "outcome"]).to_pydict()
    return {
        key
        for key, outcome in zip(table["key"], table["outcome"], strict=True)
        if outcome == "kept"
    }


def ranked(samples, sign=-1):
    return [key for key, number, _ in sorted(samples, key=lambda one: (sign * one[1], one[0]))]


TOP = "json_number('n') top 30%"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "words",
    [
        ("filter", "in", "--keep", TOP, "--jobs", 0),
        ("filter", "in", "--keep", TOP, "--jobs", 2),
        ("filter", "in/2.tar", "in/0.tar", "in/1.tar", "--keep", TOP, "--jobs", 0),
        ("filter", "in", "--where", """rank_percent("json_number('n')") <= 30""", "--jobs", 0),
        ("filter", "in", "--recipe", "recipe.yaml", "--jobs", 0),
        ("filter", "in", "--ledger", "scored", "--keep", TOP, "--jobs", 0),
    ],
)
def test_the_share_is_exact_and_equal_numbers_go_by_key(samples, tmp_path, words):
    Path("recipe.yaml").write_text("keep: [\"json_number( 'n' ) top 30 %\"]\n")
    there = [one for one in samples if one[1] is not None]
    wanted = ranked(there)[: len(there) * 30 // 100]
    number = {key: number for key, number, _ in samples}
    assert number[wanted[-1]] == number[ranked(there)[len(wanted)]], (
        "the cut is not between equal numbers"
    )
    done = run(*words, "-o", tmp_path / "out")
    assert done.status == 0, done
    assert kept(tmp_path / "out") == set(wanted)
    assert "quarantined: no-value" in done.out


def test_shares_are_of_all_samples_or_of_those_that_other_terms_keep(samples, tmp_path):
    there = [one for one in samples if one[1] is not None]
    long = [one for one in there if one[2] >= 3]
    all_of_them = set(ranked(there, 1)[: len(there) * 40 // 100]) & {key for key, _, _ in long}
    of_kept = set(ranked(long, 1)[: len(long) * 40 // 100])
    assert all_of_them != of_kept
    for share, wanted in (("", all_of_them), (" of kept", of_kept)):
        keep = ("--where", "caption_words >= 3", "--keep", f"json_number('n') bottom 40%{share}")
        for kind, more in (("filter", ()), ("scored", ("--ledger", "scored"))):
            out = tmp_path / f"{kind}{len(share)}"
            assert run("filter", "in", "-o", out, *keep, *more, "--jobs", 0).status == 0
            assert kept(out) == wanted
    two = ("--keep", "json_number('n') top 50%", "--keep", "caption_words top 50%")
    assert (
        run("filter", "in", "-o", tmp_path / "two", "--ledger", "scored", *two, "--jobs", 0).status
        == 0
    )
    words = [key for key, _, _ in sorted(samples, key=lambda one: (-one[2], one[0]))]
    both = set(ranked(there)[: len(there) // 2]) & set(words[: len(words) // 2])
    assert kept(tmp_path / "two") == both


@pytest.mark.deep
@pytest.mark.parametrize("unknown", ["quarantine", "keep", "drop"])
def test_samples_without_the_number_follow_unknown(samples, tmp_path, unknown):
    words = ("--keep", TOP, "--unknown", unknown, "--jobs", 0)
    assert run("filter", "in", "-o", tmp_path / "out", *words).status == 0
    without = {key for key, number, _ in samples if number is None}
    assert without
    assert (kept(tmp_path / "out") >= without) == (unknown == "keep")
    assert len(kept(tmp_path / "out") - without) == (len(samples) - len(without)) * 30 // 100


@pytest.mark.deep
def test_a_run_is_resumed_and_a_dry_run_says_the_same(samples, tmp_path):
    words = ("filter", "in", "--keep", TOP, "--jobs", 0)
    whole = run(*words, "-o", tmp_path / "out")
    before = digests(tmp_path / "out")
    (tmp_path / "out/1.tar").unlink()
    (tmp_path / "out/.wdsflow/ledger/2.parquet").unlink()
    assert run(*words, "-o", tmp_path / "out").status == 0
    assert digests(tmp_path / "out") == before
    dry = run(*words, "--dry-run")
    assert dry.out.splitlines()[:3] == whole.out.splitlines()[:3]


def test_an_older_run_without_shares_is_resumed(samples, tmp_path):
    """Its record has no such setting."""
    words = ("filter", "in", "-o", tmp_path / "out", "--where", "caption_words > 2", "--jobs", 0)
    assert run(*words).status == 0
    assert "keep" not in json.loads((tmp_path / "out/.wdsflow/run.json").read_text())["recipe"]
    assert "3 of them done before" in run(*words).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--keep", "30%"), "--keep '30%' is not a share: write it as \"clip_similarity top 30%\""),
        (("--keep", "blur top 0%"), "is not a share"),
        (("--keep", "blur top 101%"), "is not a share"),
        (
            ("--keep", "blurr top 3%"),
            "cannot rank by 'blurr': no score is called 'blurr'; did you mean blur?",
        ),
        (("--keep", "caption top 3%"), "cannot rank by 'caption': it is a text, not a number"),
        (("--keep", "1) is None or (blur top 3%"), "cannot rank by"),
        (
            ("--keep", "caption_count top 3%"),
            "cannot rank by caption_count: it compares samples itself",
        ),
        (("--where", 'rank_percent("blurr") < 3'), "cannot rank by 'blurr'"),
        (("--recipe", "bad.yaml"), "bad.yaml, line 2: cannot rank by 'blurr'"),
        (("--keep", TOP, "--shard-count", 2), "cannot run in slices"),
    ],
)
def test_a_wrong_share_is_refused_before_the_run(samples, tmp_path, words, said):
    Path("bad.yaml").write_text("keep:\n- blurr top 3%\n")
    done = run("filter", "in", "-o", tmp_path / "out", *words)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert not (tmp_path / "out").exists()


def test_the_number_is_computed_if_the_ledger_lacks_it(samples):
    done = run(
        "filter",
        "in",
        "-o",
        "out",
        "--ledger",
        "scored",
        "--keep",
        "alnum_ratio top 20%",
        "--jobs",
        0,
    )
    assert done.status == 0
    assert len(kept(Path("out"))) == len(samples) // 5


def by_datacomp(values, fraction):
    """Return the values that DataComp's ``apply_filter.py`` keeps: see ``get_threshold`` there."""
    threshold = -np.sort(-values)[int(len(values) * fraction)]
    return values[values >= threshold]


@pytest.mark.deep
def test_equal_ranks_keep_what_datacomps_fraction_keeps(samples):
    where = """rank_percent("json_number('n')", ties="equal") <= 30"""
    assert (
        run(
            "filter", "in", "-o", "datacomp", "--ledger", "scored", "--where", where, "--jobs", 0
        ).status
        == 0
    )
    known = [(key, number) for key, number, _ in samples if number is not None]
    expected = by_datacomp(np.array([number for _, number in known]), 0.3)
    assert kept(Path("datacomp")) == {key for key, number in known if number >= expected.min()}
    assert (
        run("filter", "in", "-o", "share", "--ledger", "scored", "--keep", TOP, "--jobs", 0).status
        == 0
    )
    assert len(kept(Path("share"))) == len(known) * 3 // 10 < len(expected)


def ranks_of(score, rows, folder, memory=256 << 20):
    """Return (shard, sample, rank) of samples, given as (shard, sample, key, number)."""
    shards, numbers, keys, values = zip(*rows, strict=True)
    with Tables(folder, memory=memory) as tables:
        tables.run(CREATE_COMPARED)
        nothing = [None] * len(rows)
        tables.add(
            "compared",
            shard=shards,
            sample=numbers,
            key=keys,
            number=np.array(values),
            data=nothing,
        )
        return list(score.column(tables))


def test_zeros_have_one_rank_whatever_their_sign(tmp_path):
    rows = [
        (0, number, f"{9 - number}", value)
        for number, value in enumerate((0.0, -0.0, 1.0, -0.0, -1.0))
    ]
    ranks = [rank for *_, rank in ranks_of(RankPercent(of="n", ties="equal"), rows, tmp_path)]
    assert ranks == [20, 20, 0, 20, 80]
    assert [rank for *_, rank in ranks_of(RankPercent(of="n"), rows, tmp_path)] == [
        80,
        60,
        20,
        40,
        100,
    ]


@pytest.mark.parametrize("different", [1, 3, 70, 10**6])
def test_equal_ranks_count_the_samples_that_are_better(tmp_path, different):
    draw = random.Random(different)
    values = [draw.randrange(different) / 7 for _ in range(200)]
    score = RankPercent(of="n", ties="equal")
    rows = [(0, place, f"{place}", value) for place, value in enumerate(values)]
    ranks = {place: rank for _, place, rank in ranks_of(score, rows, tmp_path)}
    assert ranks == {
        place: sum(other > value for other in values) / 2 for place, value in enumerate(values)
    }
    chosen = sorted(values[place] for place, rank in ranks.items() if rank <= 30)
    assert chosen == sorted(by_datacomp(np.array(values), 0.3).tolist())
    assert len(chosen) > 60


def test_ranks_need_no_more_memory_than_they_are_given(tmp_path):
    draw = random.Random(3)
    score = RankPercent(of="n")
    values = {(shard, sample): (draw.choice([-1.5, 0.0, 2.25, draw.random()]), f"k{draw.randrange(900)}") for shard in (1, 0, 9) for sample in range(9_000)}  # fmt: skip
    rows = [(*place, key, value) for place, (value, key) in values.items()]
    draw.shuffle(rows)
    order = sorted(values, key=lambda place: (-values[place][0], values[place][1], place))
    found = {
        (shard, sample): rank
        for shard, sample, rank in ranks_of(score, rows, tmp_path, memory=1 << 16)
    }
    assert [*found] == sorted(values)
    assert found == {place: 100 * number / len(order) for number, place in enumerate(order, 1)}
    assert not [*tmp_path.iterdir()]
