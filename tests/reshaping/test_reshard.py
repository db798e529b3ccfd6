"""Resharding: sizes, order, parts and keys of what is written."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

from tests.filtering.shards import digests
from tests.reshaping.sets import entries, in_folder, keys_of, members, write_set
from tests.shards.archives import write_tar
from wdsflow.repair import OtherOptions
from wdsflow.reshaping.reshard import InterleavedMembers, RepeatedKeys
from wdsflow.reshaping.reshard.arrange import arrange
from wdsflow.reshaping.reshard.input_job import InputJob
from wdsflow.reshaping.reshard.reshard_options import ReshardRequest, checked_options
from wdsflow.reshaping.reshard.row_file import END, KEY, ORIGIN, START
from wdsflow.reshaping.reshard.run_reshard import reshard_shards

SHUFFLED = {  # the keys of two parts, by seed 1
    "a": "000000003 000020003 000020000 000020004 000000001 000000000 000010000 000010002",
    "b": "000020001 000020002 000000002 000010001",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [25] * 4),
        ({"samples": 30}, [25] * 4),
        ({"samples": 33}, [25] * 4),
        ({"samples": 34}, [33, 33, 34]),
        ({"shards": 7}, [14, 14, 14, 14, 14, 15, 15]),
        ({"divisible_by": "3x2"}, [16, 16, 17, 17, 17, 17]),
        ({"divisible_by": "2x1", "samples": 21}, [16, 16, 17, 17, 17, 17]),
    ],
)
def test_shards_are_equal_and_samples_stay_in_their_order(tmp_path: Path, options, sizes):
    source, out = write_set(tmp_path / "in"), tmp_path / "out"
    report = reshard_shards(source, out, **options)
    before, after = in_folder(source), in_folder(out)
    assert sorted(map(len, after)) == sizes
    assert [sample for shard in before for sample in shard] == [
        sample for shard in after for sample in shard
    ]
    assert (report.samples, report.samples_written, report.left_out.total(), report.renamed) == (
        100,
        100,
        0,
        0,
    )
    counts = json.loads((out / "sizes.json").read_text())
    assert list(counts.values()) == [len(shard) for shard in after]
    assert (out / "__len__").read_text() == "100\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize("shuffle", [None, 5])
def test_shards_have_at_most_so_many_bytes_and_a_larger_sample_is_alone(tmp_path: Path, shuffle):
    source, out = write_set(tmp_path / "in"), tmp_path / "out"
    write_tar(tmp_path / "in/large.tar", [("large.jpg", b"x" * 50_000), ("small.jpg", b"x")])
    for number in range(3):  # keys that repeat get longer names
        write_tar(
            tmp_path / f"in/n{number}.tar",
            [(f"{'n' * 95}{key}.jpg", b"x" * key) for key in range(9)],
        )
    reshard_shards(source, out, size="30kB", shuffle=shuffle)
    shards = sorted(out.glob("*.tar"))
    for path, samples in zip(shards, in_folder(out), strict=True):
        assert path.stat().st_size <= 30_000 or keys_of([samples]) == ["large"]
    assert len(shards) <= 17
    assert sum(map(len, in_folder(out))) == sum(map(len, in_folder(source))) == 129


def test_a_shuffle_mixes_all_shards_and_is_the_same_for_the_same_seed(tmp_path: Path):
    source = write_set(tmp_path / "in", (100, 100, 100))
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        reshard_shards(source, tmp_path / name, shuffle=seed, jobs=1 if name == "a" else 3)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    first, other = in_folder(tmp_path / "a"), in_folder(tmp_path / "c")
    assert keys_of(first) != keys_of(other)
    assert members(first) == members(other) == members(in_folder(source))
    for shard in first:
        origins = [sum(key.startswith(f"{number:05d}") for key, _ in shard) for number in range(3)]
        assert min(origins) > 15  # 33 expected


def test_a_seed_gives_the_order_that_it_always_gave(tmp_path: Path):
    source = write_set(tmp_path / "in", (4, 3, 5))
    reshard_shards(source, tmp_path / "out", shuffle=1, split="a=0.6,b=0.4", samples=100)
    assert {
        name: " ".join(keys_of(in_folder(tmp_path / "out" / name))) for name in SHUFFLED
    } == SHUFFLED


def rows_of_inputs(folder: Path, counts: tuple[int, ...]) -> list[InputJob]:
    """Return inputs whose samples were noted: the keys of each are 5, 8, 11 ... modulo 1009."""
    jobs = [InputJob(number, "", folder, True, True) for number in range(len(counts))]
    for job, count in zip(jobs, counts, strict=True):
        numbers = np.arange(count, dtype=np.uint64)
        keys = (b"%d" % (number * 3 % 1009 + 5) for number in range(count))
        job.key_file.write_bytes(b"".join(len(key).to_bytes(4, "little") + key for key in keys))
        places = np.full(count, job.number << 16 | 2, np.uint64)
        job.rows.append(
            np.stack([numbers % 7, numbers * 1024, numbers * 1024 + 1024, places], axis=1)
        )
    return jobs


@pytest.mark.sample(1)
@pytest.mark.parametrize("asked", [{"shuffle": 3}, {"by_key": True}])
def test_more_samples_than_are_read_at_a_time_are_arranged_together(tmp_path: Path, asked):
    counts = (70_000, 0, 3, 40_000)
    (part,), left_out = arrange(
        rows_of_inputs(tmp_path, counts), checked_options(ReshardRequest(**asked)), tmp_path
    )
    assert not left_out
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["part-0.rows"]
    found = part.read(0, part.count)
    places = list(
        zip((found[:, ORIGIN] >> 16).tolist(), (found[:, START] // 1024).tolist(), strict=True)
    )
    every = [(number, place) for number, count in enumerate(counts) for place in range(count)]
    assert sorted(places) == every
    assert (found[:, END] == found[:, START] + 1024).all()
    assert (found[:, KEY] == found[:, START] // 1024 % 7).all()
    if "by_key" in asked:
        assert places == sorted(every, key=lambda each: str(each[1] * 3 % 1009 + 5))  # stable
    else:
        assert (
            0.9 < np.mean([number == 0 for number, _ in places[:10_000]]) / (70_000 / 110_003) < 1.1
        )


@pytest.mark.parametrize("options", [{"samples": 9}, {"size": "30kB"}, {"by_key": True}])
def test_samples_are_read_in_pieces_without_a_difference(tmp_path: Path, monkeypatch, options):
    source = write_set(tmp_path / "in")
    write_tar(tmp_path / "in/00004.tar", [])
    for number in range(2):
        keys = [f"{'again' * 15}{key}" for key in range(30)]
        write_tar(tmp_path / f"in/n{number}.tar", entries(keys, f"n{number}"))
    reshard_shards(source, tmp_path / "one", **options)
    for module in ("arrange", "bounds", "record_samples", "repeated_keys", "row_file"):
        monkeypatch.setattr(f"wdsflow.reshaping.reshard.{module}.PIECE", 4)
    report = reshard_shards(source, tmp_path / "many", **options)
    assert report.samples_written == 160
    assert digests(tmp_path / "many") == digests(tmp_path / "one")


def test_an_order_by_key_is_stable_beyond_a_piece(tmp_path: Path, monkeypatch):
    (tmp_path / "in").mkdir()
    for number in range(3):
        write_tar(tmp_path / f"in/{number}.tar", entries(["b", "a", "c"], str(number)))
    for module in ("arrange", "row_file"):
        monkeypatch.setattr(f"wdsflow.reshaping.reshard.{module}.PIECE", 2)
    reshard_shards(str(tmp_path / "in"), tmp_path / "out", by_key=True, shards=1)
    (samples,) = in_folder(tmp_path / "out")
    assert [fields["txt"].decode() for _, fields in samples] == [
        f"caption of {number} {key}" for key in "abc" for number in range(3)
    ]


def test_more_shards_than_a_run_may_have_are_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("wdsflow.reshaping.reshard.bounds._MOST_SHARDS", 9)
    source = write_set(tmp_path / "in")
    with pytest.raises(ValueError, match=r"^these would be 10 shards: at most 9$"):
        reshard_shards(source, tmp_path / "out", samples=10)
    assert len(reshard_shards(source, tmp_path / "out", shards=9).outcomes) == 9


def test_a_part_without_samples_is_said_to_be_empty(tmp_path: Path):
    source = write_set(tmp_path / "in", (3, 3))
    report = reshard_shards(source, tmp_path / "out", split="none=1e-18,all=0.9999")
    lines = str(report).splitlines()
    assert "none: no samples: nothing written" in lines
    assert len(keys_of(in_folder(tmp_path / "out/all"))) == 6
    assert not (tmp_path / "out/none").exists()


def test_order_by_key_is_that_of_its_bytes_over_all_shards(tmp_path: Path):
    (tmp_path / "in").mkdir()
    keys = [["b", "é", "a/2"], ["\udcff", "a", "B"], ["c", "b1", "10", "9"]]
    for number, each in enumerate(keys):
        write_tar(tmp_path / f"in/{number}.tar", entries(each, str(number)))
    reshard_shards(str(tmp_path / "in"), tmp_path / "out", by_key=True, samples=3)
    found = keys_of(in_folder(tmp_path / "out"))
    assert found == sorted(
        (key for each in keys for key in each),
        key=lambda key: key.encode("utf-8", "surrogateescape"),
    )


def test_a_part_is_decided_by_the_key_alone_and_stays_when_data_are_added(tmp_path: Path):
    source = write_set(tmp_path / "in", (200, 200))
    report = reshard_shards(source, tmp_path / "out", split="train=0.7,val=0.2")
    share = {name: keys_of(in_folder(tmp_path / "out" / name)) for name in ("train", "val")}
    for name, (least, most) in {"train": (0, 0.7), "val": (0.7, 0.9)}.items():
        assert all(least <= xxh3_64_intdigest(key.encode()) / 2**64 < most for key in share[name])
        assert (tmp_path / "out" / name / "__len__").read_text() == f"{len(share[name])}\n"
    assert sum(map(len, share.values())) + report.left_out["in no part of the split"] == 400
    assert report.left_out["in no part of the split"] > 10
    assert not (tmp_path / "out/sizes.json").exists()
    more = write_set(tmp_path / "in", (200, 200, 300))
    reshard_shards(more, tmp_path / "more", split="train=0.7,val=0.2", shuffle=4)
    for name, keys in share.items():
        assert set(keys) <= set(keys_of(in_folder(tmp_path / "more" / name)))


def test_folds_are_disjoint_and_hold_every_sample_once(tmp_path: Path):
    source = write_set(tmp_path / "in", (200, 100))
    reshard_shards(source, tmp_path / "out", folds=3, shards=2)
    assert sorted(path.name for path in (tmp_path / "out").glob("fold-*")) == [
        "fold-0",
        "fold-1",
        "fold-2",
    ]
    assert [len(list((tmp_path / f"out/fold-{fold}").glob("*.tar"))) for fold in range(3)] == [
        2,
        2,
        2,
    ]
    assert members(in_folder(tmp_path / "out")) == members(in_folder(source))
    assert all(
        60 < len(keys_of(in_folder(tmp_path / f"out/fold-{fold}"))) < 140 for fold in range(3)
    )


def test_a_key_that_is_in_the_shard_already_gets_a_number_that_is_free(tmp_path: Path):
    (tmp_path / "in").mkdir()
    for number, keys in enumerate((["a", "b", "a-2"], ["a", "b.v2/c"], ["a", "d"])):
        write_tar(tmp_path / f"in/{number}.tar", entries(keys, str(number)))
    report = reshard_shards(str(tmp_path / "in"), tmp_path / "out", shards=1)
    assert keys_of(in_folder(tmp_path / "out")) == ["a", "b", "a-2", "a-3", "b.v2/c", "a-4", "d"]
    assert report.renamed == 2
    assert [key for key, _ in in_folder(tmp_path / "out")[0][3:4]] == ["a-3"]
    contents = [fields for key, fields in in_folder(tmp_path / "out")[0] if key.startswith("a")]
    assert [fields["txt"] for fields in contents] == [
        f"caption of {n}".encode() for n in ("0 a", "0 a-2", "1 a", "2 a")
    ]
    with pytest.raises(
        RepeatedKeys, match="2 samples would share a shard with another sample of the same key"
    ):
        reshard_shards(str(tmp_path / "in"), tmp_path / "refused", shards=1, repeated_keys="refuse")
    assert not (tmp_path / "refused").exists()
    assert (
        reshard_shards(
            str(tmp_path / "in"), tmp_path / "apart", shards=3, repeated_keys="refuse"
        ).renamed
        == 0
    )
    with pytest.raises(ValueError, match="--repeated-keys is number or refuse, not 'Refuse'"):
        reshard_shards(str(tmp_path / "in"), tmp_path / "refused", shards=1, repeated_keys="Refuse")  # type: ignore[arg-type]


@pytest.mark.deep
def test_long_keys_that_got_another_name_are_shown_with_both_ends(tmp_path: Path):
    key = f"https/host/{'folder/' * 30}0001"
    (tmp_path / "in").mkdir()
    for number in range(2):
        write_tar(
            tmp_path / f"in/{number}.tar", [(f"{key}.jpg", b"x" * number)], form=tarfile.PAX_FORMAT
        )
    report = reshard_shards(str(tmp_path / "in"), tmp_path / "out", shards=1)
    assert " such as https/host/folder/" in str(report)
    assert "folder/0001 -> https/host/folder/" in str(report)
    assert "folder/0001-2" in str(report)


def test_samples_of_one_key_are_kept_apart_at_the_border_of_two_shards_as_well(tmp_path: Path):
    write_tar(
        tmp_path / "0.tar", [("a.jpg", b"0"), ("a.jpg", b"1"), ("a.jpg", b"2"), ("b.jpg", b"3")]
    )
    reshard_shards(str(tmp_path / "0.tar"), tmp_path / "out", samples=1)
    assert keys_of(in_folder(tmp_path / "out")) == ["a", "a-2", "a-3", "b"]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("first", "second", "where"),
    [
        (["a.jpg", "b.jpg", "a.txt", "b.txt"], ["c.jpg"], "2 samples have .* such as a in .*0.tar"),
        (["a.jpg", "a.txt", "b.jpg"], ["b.txt", "c.jpg"], "1 sample has .* such as b in .*0.tar"),
    ],
)
def test_samples_whose_members_are_not_together_are_not_parted(
    tmp_path: Path, first, second, where
):
    (tmp_path / "in").mkdir()
    for number, names in enumerate((first, second)):
        write_tar(tmp_path / f"in/{number}.tar", [(name, name.encode()) for name in names])
    for options in ({}, {"shuffle": 1}):
        with pytest.raises(InterleavedMembers, match=where):
            reshard_shards(str(tmp_path / "in"), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"samples": 3, "size": "1GB"}, "--samples and --size both decide"),
        ({"shards": 3, "divisible_by": "2x2"}, "--divisible-by and --shards both decide"),
        ({"shuffle": 0, "by_key": True}, "--shuffle and --by-key both decide the order"),
        ({"split": "a=1", "folds": 2}, "--split and --folds both decide"),
        ({"split": "train=0.9,val=0.2"}, "are 1.1 together: at most 1"),
        ({"split": "train=0.9,Train=0.1"}, "names Train twice"),
        ({"split": "../x=0.9"}, "not of the form NAME=SHARE"),
        ({"split": ".wdsflow=0.9"}, "not of the form NAME=SHARE"),
        ({"split": "train=nan"}, "not of the form NAME=SHARE"),
        ({"folds": 1}, "--folds must be at least 2"),
        ({"samples": 0}, "--samples must be at least 1"),
        ({"size": "1G"}, "has two meanings"),
        ({"divisible_by": "8"}, "not of the form RANKSxWORKERS"),
        ({"divisible_by": "0x4"}, "not of the form RANKSxWORKERS"),
        ({"shards": 101}, "--shards 101: 101 shards cannot be made of 100 samples"),
        ({"divisible_by": "16x8"}, "--divisible-by 16x8: 128 shards cannot be made of 100 samples"),
        ({"split": "a=0.9,b=0.1", "shards": 50}, "50 shards cannot be made of [0-9]+ samples of b"),
    ],
)
def test_what_does_not_fit_together_is_refused_and_nothing_is_written(
    tmp_path: Path, options, words
):
    source = write_set(tmp_path / "in")
    with pytest.raises(ValueError, match=words):
        reshard_shards(source, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_other_options_are_refused_and_a_restart_removes_only_what_was_written(tmp_path: Path):
    source, out = write_set(tmp_path / "in"), tmp_path / "out"
    reshard_shards(source, out, split="train=0.9,val=0.1")
    (out / "train/mine.tar").write_bytes(b"mine")
    with pytest.raises(
        OtherOptions, match=r"--split was train=0.9,val=0.1, now it is train=0.5,test=0.5"
    ):
        reshard_shards(source, out, split="train=0.5,test=0.5")
    reshard_shards(source, out, restart=True)
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*.tar")) == [
        *(f"0000{number}.tar" for number in range(4)),
        "train/mine.tar",
    ]


def test_other_inputs_replace_the_shards_of_the_earlier_run(tmp_path: Path):
    source, out = write_set(tmp_path / "in"), tmp_path / "out"
    reshard_shards(source, out, samples=10)
    (tmp_path / "in/00003.tar").unlink()
    report = reshard_shards(source, out, samples=10)
    assert report.removed == 4
    assert "removed: 4 shards that an earlier run made of other inputs" in str(report).splitlines()
    reshard_shards(source, tmp_path / "new", samples=10)
    assert {name: digest for name, digest in digests(out).items() if ".wdsflow" not in name} == {
        name: digest for name, digest in digests(tmp_path / "new").items() if ".wdsflow" not in name
    }


def test_an_input_is_never_replaced(tmp_path: Path):
    source = write_set(tmp_path / "in")
    before = digests(tmp_path / "in")
    for options in ({}, {"split": "train=0.5"}):
        with pytest.raises(FileExistsError, match="is an input, and in a folder for outputs"):
            reshard_shards(source, tmp_path / "in", **options)
    assert digests(tmp_path / "in") == before


@pytest.mark.deep
def test_a_run_that_is_refused_removes_nothing_even_if_it_was_to_start_again(tmp_path: Path):
    source, out = write_set(tmp_path / "in"), tmp_path / "out"
    reshard_shards(source, out, split="a=0.5,b=0.5")
    before = in_folder(out / "a"), in_folder(out / "b")
    with pytest.raises(ValueError, match="cannot be made of"):
        reshard_shards(source, out, shards=1_000, restart=True)
    assert (in_folder(out / "a"), in_folder(out / "b")) == before
    reshard_shards(source, out, shards=2, restart=True)
    assert len(in_folder(out)) == 2
    assert not list(out.glob("?/*.tar"))


@pytest.mark.parametrize("name", ["other.tar", "__len__"])
def test_a_folder_with_shards_or_counts_of_others_is_refused(tmp_path: Path, name: str):
    source, out = write_set(tmp_path / "in"), tmp_path / "out"
    out.mkdir()
    (out / name).write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="no reshard wrote it"):
        reshard_shards(source, out)
    assert [path.name for path in out.iterdir()] == [name]
