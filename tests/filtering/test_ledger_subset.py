"""What a ledger keeps, as a view of the shards and as a stage of a plain pipeline."""

import gzip
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.filtering.commands import pasted, run
from tests.filtering.shards import entries, write_shards
from tests.shards.archives import read_tar, write_tar
from tests.stages.loaders import through_loader
from tests.stages.stage_laws import assert_stage_laws
from wdsflow.filtering import KeepFromLedger
from wdsflow.filtering.deciding.ledger_subset import LedgerSubset, StagedLedger
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, MissingScore
from wdsflow.pieces.view_source import view_of
from wdsflow.shards.source.base import SourceChangedError, single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.stages import StageError

WHERE = "width > 100 and caption_words > 1"


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("subset")
    data = write_shards(folder / "in", shards=2)
    assert (
        run(
            "measure", data, "-o", folder / "scored", "--scores", "width,caption_words", "--jobs", 0
        ).status
        == 0
    )
    words = ("--ledger", folder / "scored", "--where", WHERE, "--jobs", 0)
    assert run("filter", data, "-o", folder / "cut", *words).status == 0
    return folder


@pytest.fixture
def here(scored, tmp_path, monkeypatch):
    shutil.copytree(scored, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def samples(folder, number=0):
    """The samples of a shard as webdataset gives them."""
    found = {}
    for name, data in read_tar(folder / "in" / f"{number:05d}.tar"):
        key, _, field = name.partition(".")
        sample = found.setdefault(key, {"__key__": key, "__url__": f"{folder}/in/{number:05d}.tar"})
        sample[field] = data
    return list(found.values())


def stage(folder, **settings):
    return KeepFromLedger(f"{folder}/scored", WHERE, **settings)


def test_a_view_has_no_sample_that_would_follow_one_of_its_key(tmp_path):
    # Without "b" a reader would take the two of "a" for one sample.
    members = [("a.txt", b"one two"), ("b.txt", b"one"), ("a.txt", b"one two three")]
    write_tar(tmp_path / "in.tar", members)
    scored, cut = tmp_path / "scored", tmp_path / "cut"
    words = ("--scores", "caption_words", "--jobs", 0)
    assert run("measure", tmp_path / "in.tar", "-o", scored, *words).status == 0
    where = "caption_words > 1"
    words = ("--ledger", scored, "--where", where, "--jobs", 0)
    assert run("filter", tmp_path / "in.tar", "-o", cut, *words).status == 0
    assert read_tar(cut / "in.tar") == [("a.txt", b"one two")]
    shard = single_shard(str(tmp_path / "in.tar"))
    kept = LedgerSubset.of(scored, where).shard(shard).kept()
    assert (kept.kept, kept.samples) == (1, 3)
    with view_of(open_source(shard), kept.ranges) as view:
        assert view.read_at(0, 1 << 20) == (cut / "in.tar").read_bytes()


@pytest.mark.parametrize("packed", [False, True])
def test_the_view_of_a_shard_is_the_tar_that_cut_writes(scored, tmp_path, packed):
    kept = (
        LedgerSubset.of(scored / "scored", WHERE)
        .shard(single_shard(str(scored / "in" / "00000.tar")))
        .kept()
    )
    path, expected = scored / "in" / "00000.tar", (scored / "cut" / "00000.tar").read_bytes()
    if packed:
        path = tmp_path / "00000.tar.gz"
        data = (scored / "in" / "00000.tar").read_bytes()
        middle = len(data) // 2
        # As pigz and others write.
        path.write_bytes(gzip.compress(data[:middle]) + gzip.compress(data[middle:]))
    assert (kept.samples, kept.kept) == (20, 12)
    for step in (1000, 512, 1 << 20):
        with view_of(open_source(single_shard(str(path))), kept.ranges) as view:
            pieces = [view.read_at(at, step) for at in range(0, len(expected) + step, step)]
            assert b"".join(pieces) == expected


def test_a_view_reads_only_its_ranges_and_refuses_a_shard_that_ends_early(scored, tmp_path):
    kept = (
        LedgerSubset.of(scored / "scored", WHERE)
        .shard(single_shard(str(scored / "in" / "00001.tar")))
        .kept()
    )
    with view_of(open_source(single_shard(str(scored / "in" / "00001.tar"))), kept.ranges) as view:
        view.read_at(0, 1 << 30)
        assert view.bytes_read == sum(end - start for start, end in kept.ranges)
    cut = tmp_path / "cut.tar"
    cut.write_bytes((scored / "in" / "00001.tar").read_bytes()[: kept.offsets[-1] - 1000])
    with (
        view_of(open_source(single_shard(str(cut))), kept.ranges) as view,
        pytest.raises(SourceChangedError, match="too early"),
    ):
        view.read_at(0, 1 << 30)


def test_the_stage_keeps_the_laws_of_stages(scored):
    assert_stage_laws(stage(scored), samples(scored))


def test_the_stage_keeps_what_cut_keeps_and_counts_the_others_by_term(scored):
    keeping = stage(scored)
    kept = [sample["__key__"] for number in range(2) for sample in keeping(samples(scored, number))]
    names = [
        name for number in range(2) for name, _ in read_tar(scored / "cut" / f"{number:05d}.tar")
    ]
    assert kept == list(dict.fromkeys(name.partition(".")[0] for name in names))
    assert keeping.counts.dropped == Counter({"width > 100": 10, "caption_words > 1": 6})
    assert (keeping.counts.seen, keeping.counts.kept) == (40, 24)


@pytest.mark.webdataset
@pytest.mark.parametrize("method", [None, pytest.param("spawn", marks=pytest.mark.deep)])
def test_the_stage_runs_in_a_plain_webdataset_pipeline(scored, method):
    pytest.importorskip("webdataset")
    found = through_loader(stage(scored), samples(scored), method)
    assert [sample["__key__"] for sample in found] == [
        each["__key__"] for each in stage(scored)(samples(scored))
    ]


def test_a_shard_and_a_sample_that_the_ledger_does_not_know_are_errors_with_the_command_that_scores_them(
    here,
):
    write_tar(here / "in" / "new.tar", entries(5, 3))
    new = [{"__key__": "0050000", "__url__": "in/new.tar", "txt": b"a"}]
    with pytest.raises(
        StageError, match=r"no ledger of in/new\.tar; to measure it: wdsflow measure in/new.tar -o "
    ) as caught:
        list(stage(here)(new))
    assert pasted(str(caught.value).partition("to measure it: ")[2]).status == 0
    strange = [{"__key__": "nobody", "__url__": "in/00000.tar"}]
    with pytest.raises(StageError, match="no sample of this key"):
        list(stage(here)(strange))
    assert list(stage(here, unknown="keep")(new + strange)) == new + strange
    dropping = stage(here, on_error="drop")
    assert list(dropping(new + strange)) == []
    assert dropping.counts.failed == Counter({"no-ledger": 1, "not-in-ledger": 1})


def test_a_shard_that_cannot_be_read_cannot_be_compared_with_its_ledger(here):
    keeping = stage(here)
    one = samples(here)[:1]
    (here / "in" / "00000.tar").unlink()
    with pytest.raises(StageError) as caught:
        list(keeping(one))
    assert str(caught.value) == (
        f"keep_from_ledger: sample '0000000' of '{here}/in/00000.tar': "
        "the shard cannot be compared with its ledger: no such file"
    )
    assert caught.value.slug == "unreadable-shard"


def test_the_stage_forgets_the_outcomes_of_earlier_shards(here, monkeypatch):
    monkeypatch.setattr("wdsflow.filtering.keep_from_ledger._HELD", 25)
    keeping = stage(here)
    both = samples(here), samples(here, 1)
    expected = [list(stage(here)(each)) for each in both]
    for number in (0, 1, 0, 1):
        assert list(keeping(both[number])) == expected[number]
    assert len(keeping._outcomes._shards) == 1


def test_a_changed_shard_is_an_error_even_where_unknown_ones_are_kept(here):
    write_tar(here / "in" / "00000.tar", entries(7, 4))
    with pytest.raises(
        StageError, match="has changed since: measure again; to measure it: wdsflow measure "
    ):
        list(stage(here, unknown="keep")(samples(here)))


def test_keys_that_are_both_kept_and_dropped_are_an_error(tmp_path):
    tar = [(f"a.{name.partition('.')[2]}", data) for name, data in entries(0, 4)]
    (tmp_path / "in").mkdir()
    write_tar(tmp_path / "in" / "00000.tar", [*tar[:3], ("b.txt", b"other"), *tar[6:9]])
    data = str(tmp_path / "in")
    assert (
        run(
            "measure",
            data,
            "-o",
            tmp_path / "scored",
            "--scores",
            "width,caption_words",
            "--jobs",
            0,
        ).status
        == 0
    )
    keeping = KeepFromLedger(str(tmp_path / "scored"), "caption_words > 2")
    with pytest.raises(StageError, match="both kept and dropped"):
        list(keeping([{"__key__": "a", "__url__": f"{data}/00000.tar"}]))


def test_the_stage_refuses_at_once_what_it_can_never_do(here):
    with pytest.raises(LedgerError, match="compares samples of all shards"):
        KeepFromLedger("scored", "rank_percent(of='width') <= 30")
    with pytest.raises(MissingScore, match="blur"):
        KeepFromLedger("scored", "blur > 3")
    with pytest.raises(ValueError, match="the predicate is empty"):
        KeepFromLedger("scored", " ")
    assert run("measure", "in", "-o", "none", "--scores", "width", "--jobs", 0).status == 0
    Path("none/.wdsflow/manifest.jsonl").write_text("")
    with pytest.raises(LedgerError, match=r"^none has no ledgers: "):
        KeepFromLedger("none", WHERE)
    Path("stages.yaml").write_text("stages: [clean_text]")
    words = ("--recipe", "stages.yaml", "--scores", "width,caption_words", "--jobs", 0)
    assert run("measure", "in", "-o", "staged", *words).status == 0
    with pytest.raises(StagedLedger) as staged:
        KeepFromLedger("staged", WHERE)
    assert str(staged.value) == (
        "staged was measured with stages, which change samples: only wdsflow filter can write those"
    )
    shutil.copytree("scored", "unknown")
    Path("unknown/.wdsflow/run.json").write_text("{}")
    with pytest.raises(
        LedgerError, match=r"run.json does not record how unknown was measured: measure again"
    ):
        KeepFromLedger("unknown", WHERE)
    with pytest.raises(StageError, match="without __url__"):
        list(stage(here)([{"__key__": "a"}]))


def test_one_name_in_two_folders_is_told_apart_by_path_and_where_both_moved_by_contents(tmp_path):
    for number, folder in enumerate(("a", "b")):
        (tmp_path / folder).mkdir()
        write_tar(tmp_path / folder / "0.tar", entries(number, 4 + number))
    given = [tmp_path / "a", tmp_path / "b"]
    assert (
        run("measure", *given, "-o", tmp_path / "scored", "--scores", "width", "--jobs", 0).status
        == 0
    )
    subset = LedgerSubset.of(tmp_path / "scored", "width > 0")
    assert [subset.shard(single_shard(f"{folder}/0.tar")).kept().kept for folder in given] == [4, 5]
    shutil.copytree(tmp_path / "b", tmp_path / "moved")
    assert subset.shard(single_shard(f"{tmp_path}/moved/0.tar")).kept().kept == 5


def test_of_shards_with_the_same_name_any_one_has_its_own_ledger(tmp_path):
    write_shards(tmp_path / "a", shards=1)
    (tmp_path / "b").mkdir()
    write_tar(tmp_path / "b" / "00000.tar", [("x.txt", b"one two three"), ("x.png", b"no image")])
    data = [str(tmp_path / folder / "00000.tar") for folder in ("a", "b")]
    assert (
        run(
            "measure", *data, "-o", tmp_path / "scored", "--scores", "caption_words", "--jobs", 0
        ).status
        == 0
    )
    assert (
        LedgerSubset.of(tmp_path / "scored", "caption_words > 1")
        .shard(single_shard(data[1]))
        .kept()
        .kept
        == 1
    )


def test_a_shard_by_two_names_is_refused_where_samples_are_compared(here):
    assert run("measure", "in", "-o", "compared", "--scores", "duplicate", "--jobs", 0).status == 0
    subset = LedgerSubset.of("compared", "not duplicate")
    [alone] = subset.shards([single_shard("in/00000.tar")])
    assert alone.kept().kept
    with pytest.raises(LedgerError, match=r"have one ledger, .* name each shard once"):
        subset.shards([single_shard("in/00000.tar"), single_shard("./in/00000.tar")])
