"""Tars of other sizes have the bytes that reshard writes of what cut or graft writes, and nothing is written for them."""

import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.depth import cases
from tests.filtering.commands import pasted, run
from tests.reshaping.sets import entries, write_set
from tests.reshaping.test_reshard_properties import SHARDS, write_drawn
from tests.servers import http_server
from tests.serving import served
from tests.serving.served import WHERE, ask, serving
from tests.shards.archives import write_tar
from wdsflow.reshaping.reshard.read_inputs import MembersApart
from wdsflow.reshaping.reshard.reshard_options import ReshardRequest, checked
from wdsflow.reshaping.reshard.run_reshard import reshard_shards
from wdsflow.serving.resharded_tars import NotAllServed, ReshardedTars
from wdsflow.serving.shard_tars import ShardTars
from wdsflow.shards.source.base import SourceError


def contents(views: ReshardedTars, number: int, start: int = 0, stop: int | None = None) -> bytes:
    with views.open(number) as tar:
        found = tar.source.joined_parts(start, tar.size if stop is None else stop)
        assert not tar.changed()
        return found


def resharded(place: Path, urls: list[str], **asked: Any) -> ReshardedTars:
    return ReshardedTars(ShardTars(urls), checked(ReshardRequest(**asked)), Path(tempfile.mkdtemp(dir=place)))


def written(place: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(place.glob("*.tar"))]


@pytest.mark.parametrize(
    "asked",
    [{"samples": 7}, {"size": "20KB"}, {"divisible_by": "2x3"}, {"shuffle": 3}, {"shards": 4, "shuffle": 3}],
    ids=str,
)
def test_tars_have_the_bytes_that_reshard_writes(tmp_path: Path, asked: dict[str, Any]):
    source = write_set(tmp_path / "in")
    reshard_shards(source, tmp_path / "out", **asked)
    views = resharded(tmp_path, sorted(map(str, Path(source).glob("*.tar"))), **asked)
    assert [contents(views, number) for number in range(len(views.urls))] == written(tmp_path / "out")
    assert views.sizes == list(json.loads((tmp_path / "out" / "sizes.json").read_bytes()).values())


@cases(8)
@given(SHARDS)
def test_so_have_those_of_random_sets(shards):
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        (place / "in").mkdir()
        write_drawn(place / "in", shards)
        reshard_shards(str(place / "in"), place / "out", samples=3)
        views = resharded(place, [str(path) for path in sorted((place / "in").glob("*.tar"))], samples=3)
        assert [contents(views, number) for number in range(len(views.urls))] == written(place / "out")


def test_any_range_has_its_bytes_also_over_the_borders_of_shards_whose_padding_is_cut(tmp_path: Path):
    source = write_set(tmp_path / "in", (3, 1, 2))
    for path in Path(source).glob("*.tar"):  # the text at the end loses its padding, and the tar its end
        with tarfile.open(path) as tar:
            last = tar.getmembers()[-1]
        path.write_bytes(path.read_bytes()[: last.offset_data + last.size])
    reshard_shards(source, tmp_path / "out", samples=4)
    views = resharded(tmp_path, sorted(map(str, Path(source).glob("*.tar"))), samples=4)
    draw = random.Random(1)
    shards = written(tmp_path / "out")
    assert len(shards) == 2
    for number, data in enumerate(shards):
        assert contents(views, number) == data
        for _ in range(100):
            start, stop = sorted(draw.choices(range(len(data) + 1), k=2))
            assert contents(views, number, start, stop) == data[start:stop]


def test_keys_that_come_twice_get_a_number_as_by_reshard(tmp_path: Path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        write_tar(tmp_path / "in" / f"{number}.tar", entries(["a", "b"], str(number)))
    reshard_shards(str(tmp_path / "in"), tmp_path / "out", samples=6)
    views = resharded(tmp_path, [str(tmp_path / "in" / f"{number}.tar") for number in range(3)], samples=6)
    assert b"a-3.jpg" in contents(views, 0)
    assert [contents(views, 0)] == written(tmp_path / "out")


def test_over_http_a_filtered_set_is_that_of_cut_and_reshard(tmp_path: Path):
    place = served.write_set(tmp_path)
    reshard_shards(str(place / "cut"), tmp_path / "out", samples=5)
    want = written(tmp_path / "out")
    with serving(place / "in", "--ledger", place / "scores", "--where", WHERE, "--samples", "5") as server:
        assert server.lines[0].startswith("serving 8 shards of 3 inputs at http://127.0.0.1:")
        assert "    36  kept  (60.0%) (nothing was written)" in server.lines
        assert "--train-num-samples 36" in server.lines[-1]
        with contextlib.closing(server.connect()) as connection:
            got = [ask(connection, f"/{number:06d}.tar") for number in range(9)]
            assert [reply.body for reply in got[:8]] == want
            assert got[8].status == 404
            part = ask(connection, "/000002.tar", Range="bytes=1000-30000", If_Range=got[2].headers["ETag"])
            assert (part.status, part.body) == (206, want[2][1000:30001])
            assert json.loads(ask(connection, "/sizes.json").body)["000007.tar"] == 5
            assert ask(connection, "/__len__").body == b"36\n"


def test_a_shard_that_changes_ends_the_answers_that_need_it(tmp_path: Path):
    source = Path(write_set(tmp_path / "in", (4, 4)))
    with serving(source, "--samples", "4") as server, contextlib.closing(server.connect()) as connection:
        first = ask(connection, "/000000.tar").body
        os.replace(write_tar(tmp_path / "new.tar", entries(["x", "y"], "new")), source / "00001.tar")
        reply = ask(connection, "/000001.tar")
        assert reply.status == 500
        assert reply.body.startswith(b"shard 2 of 2, 4 samples: ")
        assert b"00001.tar is not what it was when serve began: stop serve, and start it again" in reply.body
        assert ask(connection, "/000000.tar").body == first


def test_a_shard_that_changes_after_its_tar_was_known_breaks_the_answer(tmp_path: Path):
    source = Path(write_set(tmp_path / "in", (4, 4)))
    views = resharded(tmp_path, [str(source / "00000.tar"), str(source / "00001.tar")], samples=4)
    with views.open(1) as tar:
        tar.source.joined_parts(0, 10)
        assert not tar.changed()
        with (source / "00001.tar").open("r+b") as file:
            file.write(b"other")
        assert tar.changed()
    with pytest.raises(SourceError, match="stop serve, and start it again"):
        views.open(1)


def test_a_shard_of_a_server_that_changes_gets_another_view_and_ends_the_answers_that_need_it(tmp_path: Path):
    source = Path(write_set(tmp_path / "in", (4, 4)))
    files = {path.name: path.read_bytes() for path in sorted(source.glob("*.tar"))}
    with http_server(files) as (url, _):
        urls = [f"{url}/{name}" for name in files]
        plain, views = ShardTars(urls), resharded(tmp_path, urls, samples=3)
        before = [contents(views, number) for number in range(3)]
        with plain.open(1) as tar:
            tag = tar.etag
        files["00001.tar"] = files["00000.tar"]
        with plain.open(1) as tar:
            assert tar.source.joined_parts(0, tar.size) == files["00001.tar"]
            assert tar.etag != tag
        assert contents(views, 0) == before[0]
        for number in (1, 2):
            with pytest.raises(SourceError, match=r"00001\.tar is not what it was when serve began"):
                contents(views, number)


def test_a_set_that_cannot_be_served_whole_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    source = Path(write_set(tmp_path / "in", (4,)))
    (source / "1.tar").write_bytes(b"no tar" * 1000)
    done = run("serve", source, "--samples", 2, "--port", 0)
    assert done.status == 2
    assert "1.tar: not a tar" in done.err
    assert "1 of 2 shards cannot be served" in done.err
    instead = next(command for command in done.commands if command.startswith("wdsflow reshard"))
    assert pasted(instead).status == 1  # it says what is lost
    assert instead.endswith("-o resharded --samples 2")
    with pytest.raises(NotAllServed):
        resharded(tmp_path, [str(source / "00000.tar"), str(source / "2.tar")], samples=2)


def test_members_apart_are_refused_with_a_command_that_brings_them_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    write_tar(tmp_path / "in" / "0.tar", [("a.jpg", b"1"), ("b.jpg", b"2"), ("a.txt", b"3"), ("b.txt", b"4")])
    with pytest.raises(MembersApart):
        resharded(tmp_path, [str(tmp_path / "in" / "0.tar")], samples=1)
    done = run("serve", "in", "--samples", 1, "--port", 0)
    assert done.status == 2
    first, then = done.commands
    assert pasted(first).status == 0
    assert then == "wdsflow serve repaired --samples 1 --port 0"
    with serving("repaired", "--samples", "1", cwd=tmp_path) as server:
        assert server.lines[0].startswith("serving 2 shards of 1 input at")


def test_a_tar_whose_global_header_changes_names_is_refused_with_a_command_that_writes_it_anew(tmp_path: Path):
    with tarfile.open(tmp_path / "0.tar", "w", format=tarfile.PAX_FORMAT, pax_headers={"size": "5"}) as tar:
        tar.addfile(tarfile.TarInfo("a.txt"))
    with pytest.raises(NotAllServed) as raised:
        resharded(tmp_path, [str(tmp_path / "0.tar")], samples=1)
    assert "global header" in raised.value.lines[0]


def test_sizes_that_mean_nothing_are_refused_before_anything_is_read(tmp_path: Path):
    write_set(tmp_path / "in", (4,))
    for words in (
        ["--samples", 0],
        ["--samples", 2, "--shards", 2],
        ["--shards", 9],
        ["--size", "x"],
        ["--divisible-by", "8"],
    ):
        done = run("serve", tmp_path / "in", *words, "--port", 0)
        assert (done.status, done.out) == (2, "")
        assert "--help" in done.err


@pytest.mark.deep
def test_samples_that_meet_only_after_a_filter_are_brought_together_by_the_printed_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    write_tar(tmp_path / "x" / "0.tar", [("b.jpg", b"1"), ("b.txt", b"two words"), ("a.jpg", b"2")])
    write_tar(
        tmp_path / "x" / "1.tar",
        [("c.jpg", b"3"), ("c.txt", b"w " * 20), ("a.txt", b"three more words"), ("d.jpg", b"4"), ("d.txt", b"short")],
    )
    assert run("measure", "x", "-o", "xs", "--scores", "caption_words", "--jobs", 0).status == 0
    words = ("--ledger", "xs", "--where", "caption_words < 10", "--unknown", "keep")
    done = run("serve", "x", *words, "--samples", 2, "--port", 0)
    assert done.status == 2
    *steps, last = done.commands
    assert [step.split()[1] for step in steps] == ["cut", "repair"]
    assert [pasted(step).status for step in steps] == [0, 0]
    assert last == "wdsflow serve repaired --samples 2 --port 0"
    with serving("repaired", "--samples", "2", cwd=tmp_path) as server:
        assert server.lines[0].startswith("serving 2 shards of 2 inputs")


def test_samples_that_get_another_key_are_counted(tmp_path: Path):
    for number in range(3):
        write_tar(tmp_path / f"{number}.tar", entries(["a", "b"], str(number)))
    with serving(tmp_path, "--samples", "6") as server:
        assert "renamed: 4 samples whose key is in the shard already get a number" in server.lines


@pytest.mark.deep
def test_shards_of_a_server_are_served_in_their_order_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    reshard_shards(write_set(tmp_path / "in", (5, 3)), tmp_path / "out", samples=3)
    with serving(tmp_path / "in") as origin:
        done = run("serve", origin.url, "--samples", 3, "--shuffle", 1, "--port", 0)
        assert done.status == 2
        assert "each sample would be a request" in done.err
        write, ordered = done.commands
        assert pasted(write).status == 0
        assert len(list((tmp_path / "resharded").glob("*.tar"))) == 3
        assert ordered == f"wdsflow serve {origin.url} --samples 3 --port 0"
        with serving(origin.url, "--samples", "3") as server, contextlib.closing(server.connect()) as connection:
            assert [ask(connection, f"/{number:06d}.tar").body for number in range(3)] == written(tmp_path / "out")


def test_a_taken_port_is_told_before_the_shards_are_read(tmp_path: Path):
    with serving(write_set(tmp_path / "in", (2,))) as server:
        port = server.url.rstrip("/").rpartition(":")[2]
        done = run("serve", tmp_path / "none.tar", "--samples", 1, "--port", port)
    assert f"port {port} of 127.0.0.1 is taken" in done.err


def test_the_table_of_samples_is_read_after_its_file_is_gone(tmp_path: Path):
    source = write_set(tmp_path / "in", (4, 3))
    reshard_shards(source, tmp_path / "out", samples=3)
    views = resharded(tmp_path, sorted(map(str, Path(source).glob("*.tar"))), samples=3)
    for path in tmp_path.glob("*/*.rows"):
        path.unlink()
    assert [contents(views, number) for number in range(3)] == written(tmp_path / "out")


_LIMITED = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); from wdsflow.cli.main import main; main()"


def test_a_full_temporary_folder_is_reported_with_a_command_that_takes_another(tmp_path: Path):
    write_set(tmp_path / "in", (50,))
    words = ["serve", "in", "--samples", "9", "--port", "0"]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, *words], capture_output=True, text=True, cwd=tmp_path, env=paths, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"wdsflow: no temporary file can be written in {tempfile.gettempdir()}: ")
    setting, _, command = done.stderr.splitlines()[1].partition(": ")[2].partition(" ")
    assert (setting, command) == ("TMPDIR=.", "wdsflow serve in --samples 9 --port 0")
    with subprocess.Popen(
        [sys.executable, "-m", *shlex.split(command)],
        stdout=subprocess.PIPE, text=True, cwd=tmp_path, env={**paths, "TMPDIR": "."},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving 6 shards of 1 input at ")
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 130
