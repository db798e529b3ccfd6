"""Resharding of shards that are damaged, packed, elsewhere or odd: nothing is lost silently."""

import gzip
import subprocess
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from tests.reshaping.sets import entries, in_folder, keys_of, members, write_set
from tests.servers import http_server
from tests.shards.archives import folder, link, names, read_tar, tar_bytes, write_tar
from wdsflow.reshaping.reshard import run_reshard
from wdsflow.reshaping.reshard.read_inputs import read_input
from wdsflow.reshaping.reshard.run_reshard import NothingRead, reshard_shards
from wdsflow.shards.urls import NoShards, PipeNotAllowed

ORDERS = pytest.mark.parametrize("order", [{}, {"shuffle": 3}, {"by_key": True}])


def packed_set(place: Path) -> str:
    """Four shards, two of them packed."""
    source = Path(write_set(place))
    for number in (1, 3):
        path = source / f"{number:05d}.tar"
        path.with_suffix(".tar.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
        path.unlink()
    return str(source)


@pytest.mark.sample(1)
@ORDERS
def test_packed_shards_come_out_as_plain_ones(tmp_path: Path, order):
    plain = members(in_folder(write_set(tmp_path / "plain")))
    reshard_shards(packed_set(tmp_path / "in"), tmp_path / "out", samples=7, **order)
    assert members(in_folder(tmp_path / "out")) == plain
    assert sorted(path.name for path in (tmp_path / "out/.wdsflow").iterdir()) == [
        "reshard.json",
        "reshard.jsonl",
    ]


@pytest.mark.sample(1)
@ORDERS
def test_shards_of_a_server_and_of_commands_are_read(tmp_path: Path, order):
    source = write_set(tmp_path / "in")
    first, second = ((tmp_path / f"in/0000{number}.tar").read_bytes() for number in range(2))
    with http_server({"0.tar": first, "1.tar.gz": gzip.compress(second)}) as (url, _):
        urls = [
            f"{url}/0.tar",
            f"{url}/1.tar.gz",
            f"pipe:cat {source}/00002.tar",
            f"{source}/00003.tar",
        ]
        report = reshard_shards(urls, tmp_path / "out", shards=3, allow_pipe=True, **order)
    assert members(in_folder(tmp_path / "out")) == members(in_folder(source))
    assert not report.lost
    with pytest.raises(PipeNotAllowed, match="would run a shell command"):
        reshard_shards(urls[2:], tmp_path / "refused", shards=3, **order)


@pytest.mark.deep
def test_a_command_that_prints_other_bytes_the_next_time_is_noticed(tmp_path: Path):
    """Names and sizes are the same."""
    shard = tmp_path / "now.tar"
    for text in (b"a cat", b"a dog"):
        write_tar(shard, [(f"{key}.txt", text) for key in "abcd"])
        reshard_shards([f"pipe:cat {shard}"], tmp_path / "out", shards=2, allow_pipe=True)
        assert {data for _, _, data in members(in_folder(tmp_path / "out"))} == {text}


@pytest.mark.sample(1)
@ORDERS
def test_a_cut_shard_gives_what_is_whole_and_says_what_is_lost(tmp_path: Path, order):
    source = write_set(tmp_path / "in")
    cut = tmp_path / "in/00002.tar"
    data = cut.read_bytes()
    cut.write_bytes(data[: len(data) // 2])
    report = reshard_shards(source, tmp_path / "out", shards=4, **order)
    damaged = report.inputs[2]
    assert len(damaged.lost) == 1
    assert damaged.samples == damaged.rows + damaged.dropped.total()
    assert report.lost
    assert f"of {damaged.samples} can be copied" in str(report)
    got = members(in_folder(tmp_path / "out"))
    assert got.total() == 2 * (30 + 5 + 48 + damaged.rows)
    assert not got - members(in_folder(write_set(tmp_path / "whole")))


def test_of_many_damaged_inputs_the_first_are_listed_and_the_others_counted(tmp_path: Path):
    for number in range(12):
        data = tar_bytes([(f"a{number}.txt", b"whole"), (f"b{number}.jpg", bytes(5000))])
        (tmp_path / f"{number:02}.tar").write_bytes(data[:3000])
    report = reshard_shards(f"{tmp_path}/*.tar", tmp_path / "out", shards=1)
    lines = [line for line in str(report).splitlines() if not line.startswith("  lost: ")]
    assert lines[9].startswith(f"{tmp_path}/09.tar: ")
    assert lines[10] == "and 2 more damaged inputs"


@pytest.mark.deep
def test_what_cannot_be_read_at_all_is_reported_and_tried_again(tmp_path: Path):
    source, out = write_set(tmp_path / "in"), tmp_path / "out"
    (tmp_path / "in/00001.tar").write_bytes(b"<html>not found</html>" * 50)
    urls = [f"{source}/{number:05d}.tar" for number in range(5)]
    report = reshard_shards(urls, out, samples=20)
    assert [found.unread for found in report.inputs] == [False, True, False, False, True]
    assert report.samples_written == 95
    write_set(tmp_path / "in")
    again = reshard_shards(urls[:4], out, samples=20)
    assert (again.samples_written, again.lost) == (100, False)
    assert members(in_folder(out)) == members(in_folder(source))
    (tmp_path / "text.tar").write_text("no tar" * 200)
    with pytest.raises(
        NothingRead, match=r"nothing could be read: .*text.tar and 1 more shard: not a tar"
    ):
        reshard_shards([str(tmp_path / "text.tar"), str(tmp_path / "none.tar")], tmp_path / "new")
    with pytest.raises(NoShards, match=r"gone.tar"):
        reshard_shards([str(tmp_path / "gone.tar"), str(tmp_path / "none.tar")], tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "options", [{}, {"shuffle": 1}, {"split": "train=0.9,val=0.1"}, {"by_key": True, "size": "1MB"}]
)
def test_shards_without_samples_give_no_shard(tmp_path: Path, options):
    write_tar(tmp_path / "0.tar", [])
    write_tar(tmp_path / "1.tar", [folder("d"), ("README", b"x"), ("__info__", b"y")])
    report = reshard_shards(
        [str(tmp_path / "0.tar"), str(tmp_path / "1.tar")], tmp_path / "out", **options
    )
    assert (report.samples, report.samples_written) == (0, 0)
    assert report.inputs[1].left_out == Counter({"directory": 1, "no-extension": 1, "metadata": 1})
    assert not (tmp_path / "out").exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "options", [{}, {"shuffle": 1}, {"size": "1B"}, {"samples": 1000}, {"split": "train=1"}]
)
def test_one_sample_is_one_shard(tmp_path: Path, options):
    write_tar(tmp_path / "0.tar", [("a.jpg", b"x"), ("a.txt", b"y")])
    reshard_shards(str(tmp_path / "0.tar"), tmp_path / "out", **options)
    (path,) = (tmp_path / "out").rglob("*.tar")
    assert read_tar(path) == [("a.jpg", b"x"), ("a.txt", b"y")]


@pytest.mark.sample(1)
@ORDERS
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_odd_names_keep_their_bytes(tmp_path: Path, form, order):
    (tmp_path / "in").mkdir()
    long = "d/" + "k" * (95 if form == tarfile.USTAR_FORMAT else 300)
    keys = ["\udcff\udcfe", "é", "a b", "x\ny", long, "photos.v1/0"]
    for number in range(3):
        write_tar(tmp_path / f"in/{number}.tar", entries(keys, str(number)), form)
    report = reshard_shards(str(tmp_path / "in"), tmp_path / "out", shards=1, **order)
    found = keys_of(in_folder(tmp_path / "out"))
    assert sorted(found) == sorted([*keys, *(f"{key}-{n}" for key in keys for n in (2, 3))])
    assert report.renamed == 12
    before, after = (members(in_folder(place)) for place in (tmp_path / "in", tmp_path / "out"))
    assert Counter(item[1:] for item in before.elements()) == Counter(
        item[1:] for item in after.elements()
    )


def test_global_headers_hold_for_their_own_tar_alone(tmp_path: Path):
    (tmp_path / "in").mkdir()
    renamed = tarfile.TarInfo().create_pax_global_header({"path": "all/same.jpg"})
    harmless = tarfile.TarInfo().create_pax_global_header({"comment": "made by hand", "mtime": "7"})
    second = tar_bytes([("c.jpg", b"3"), ("d.txt", b"4")])
    (tmp_path / "in/0.tar").write_bytes(renamed + tar_bytes([("a.jpg", b"1"), ("b.txt", b"2")]))
    (tmp_path / "in/1.tar").write_bytes(harmless + second)
    inside = (
        tar_bytes([("e.jpg", b"5")])[:1024]
        + harmless
        + tar_bytes([("e.txt", b"6"), ("f.jpg", b"7")])
    )
    (tmp_path / "in/2.tar").write_bytes(inside)
    assert names(tmp_path / "in/0.tar") == ["all/same.jpg", "all/same.jpg"]
    for place, order in (("a", {}), ("b", {"shuffle": 1}), ("c", {"by_key": True})):
        reshard_shards(str(tmp_path / "in"), tmp_path / place, shards=1, **order)
        found = dict(read_tar(tmp_path / place / "00000.tar"))
        same = sorted(found[name] for name in ("all/same.jpg", "all/same-2.jpg"))
        assert same == [b"1", b"2"]
        others = {"c.jpg": b"3", "d.txt": b"4", "e.jpg": b"5", "e.txt": b"6", "f.jpg": b"7"}
        assert {name: found[name] for name in others} == others
        assert len(found) == 7


@pytest.mark.sample(1)
@pytest.mark.parametrize("version", ["", "0.0", "0.1", "1.0"])
def test_samples_with_sparse_members_are_left_out_with_the_reason(tmp_path: Path, version):
    with open(tmp_path / "0.bin", "wb") as file:
        file.seek(1 << 20)
        file.write(b"end")
    (tmp_path / "1.bin").write_bytes(b"whole")
    options = ["--format=posix", f"--sparse-version={version}"] if version else ["--format=gnu"]
    command = ["tar", "--sparse", *options, "-cf", tmp_path / "in.tar", "0.bin", "1.bin"]
    subprocess.run(command, cwd=tmp_path, check=True)
    report = reshard_shards(str(tmp_path / "in.tar"), tmp_path / "out", shards=1)
    assert read_tar(tmp_path / "out/00000.tar") == [("1.bin", b"whole")]
    assert "left out: 1 x it has a sparse member" in str(report)
    assert "at byte 0 a sparse member is not read: 0.bin" in str(report)


def test_links_and_folders_between_samples_are_left_out_and_counted(tmp_path: Path):
    write_tar(
        tmp_path / "0.tar",
        [folder("d"), ("d/a.jpg", b"1"), link("d/b.jpg", "d/a.jpg"), ("d/c.jpg", b"3")],
    )
    report = reshard_shards(str(tmp_path / "0.tar"), tmp_path / "out")
    assert names(tmp_path / "out/00000.tar") == ["d/a.jpg", "d/c.jpg"]
    assert "members that belong to no sample: 2 left out" in str(report)


def test_an_input_that_changes_between_the_passes_is_noticed(tmp_path: Path, monkeypatch):
    source = write_set(tmp_path / "in")
    looked = read_input

    def look(job, stop):
        found = looked(job, stop)
        if job.number == 3:
            write_tar(tmp_path / "in/00000.tar", entries([f"other{n}" for n in range(30)], "x"))
        return found

    monkeypatch.setattr(run_reshard, "read_input", look)
    with pytest.raises(OSError, match=r"00000\.tar"):
        reshard_shards(source, tmp_path / "out", jobs=1)
    monkeypatch.undo()
    reshard_shards(source, tmp_path / "out")
    assert members(in_folder(tmp_path / "out")) == members(in_folder(source))


@pytest.mark.deep
def test_members_of_any_size_keep_their_bytes(tmp_path: Path):
    sizes = [0, 1, 511, 512, 513, (1 << 20) + 1, (9 << 20) + 7]
    pairs = [(f"{n}.bin", bytes([n]) * size) for n, size in enumerate(sizes)]
    write_tar(tmp_path / "0.tar", pairs)
    last = [("y.bin", b""), ("z.bin", b"last")]
    (tmp_path / "1.tar").write_bytes(tar_bytes(last)[: 1024 + 4])  # without padding and end mark
    report = reshard_shards(
        [str(tmp_path / f"{n}.tar") for n in range(2)], tmp_path / "out", shuffle=2, shards=2
    )
    got = [pair for path in sorted((tmp_path / "out").glob("*.tar")) for pair in read_tar(path)]
    assert sorted(got) == sorted([*pairs, *last])
    assert not report.left_out
