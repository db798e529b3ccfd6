"""The command: its refusals, its end, shards that change, and the commands that it prints."""

import contextlib
import http.client
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.filtering.commands import Done, pasted, run
from tests.filtering.shards import entries, write_shards
from tests.serving.served import WHERE, Running, ask, served_set, serving, write_set
from tests.shards.archives import write_tar
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_filter import measure_shards
from wdsflow.filtering.run_options import RunOptions
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.stages import CleanText


def get(server: Running, path: str, **headers: str) -> tuple[int, bytes, str]:
    with contextlib.closing(server.connect()) as connection:
        reply = ask(connection, path, **headers)
        return reply.status, reply.body, reply.headers["ETag"] or ""


def test_without_a_ledger_shards_are_served_as_they_are_and_counted(tmp_path: Path):
    write_shards(tmp_path / "in", 2, 5)
    with serving("in", cwd=tmp_path) as server:
        assert server.lines[0].startswith("serving 2 shards at http://127.0.0.1:")
        assert server.pattern == server.url + "{000000..000001}.tar"
        assert "    10  samples in 2 shards" in server.lines
        for number in range(2):
            assert get(server, f"/{number:06d}.tar")[1] == (tmp_path / "in" / f"{number:05d}.tar").read_bytes()


@pytest.mark.deep
def test_predicates_that_compare_samples_and_stages_serve_what_cut_writes(tmp_path: Path):
    folder = write_shards(tmp_path / "in", 2, 12)
    recipe = Recipe(scores=("min_side", "caption_words"), stages=(CleanText(),))
    write_tar(tmp_path / "in" / "00002.tar", [("a.txt", b"  two  words \n"), ("a.jpg", entries(0, 4)[9][1])])
    measure_shards(folder, tmp_path / "scores", recipe, RunOptions(jobs=0))
    words = ("--ledger", tmp_path / "scores", "--keep", "min_side top 40%", "--unknown", "drop")
    assert run("cut", folder, "-o", tmp_path / "cut", *words, "--empty", "write").status == 0
    with serving(folder, *words) as server:
        for number in range(3):
            assert get(server, f"/{number:06d}.tar")[1] == (tmp_path / "cut" / f"{number:05d}.tar").read_bytes()


@pytest.mark.deep
def test_shards_of_which_nothing_is_kept_are_left_out_of_list_pattern_and_counts(tmp_path: Path):
    write_shards(tmp_path / "in", 3, 4)
    write_tar(tmp_path / "in" / "00001.tar", entries(1, 1))  # one small picture
    assert run("measure", tmp_path / "in", "-o", tmp_path / "scores", "--scores", "min_side").status == 0
    with serving(tmp_path / "in", "--ledger", tmp_path / "scores", "--where", "min_side > 100") as server:
        assert "000000.tar::http" in server.lines[-1]
        assert b"000001.tar" not in get(server, "/")[1] + get(server, "/sizes.json")[1]
        assert get(server, "/000001.tar")[:2] == (200, bytes(1024))  # whoever asks for it gets an empty tar


def test_a_shard_that_changes_is_noticed_and_never_mixed(tmp_path: Path):
    write_set(tmp_path, 1, 8)
    shard = tmp_path / "in" / "00000.tar"
    with serving(tmp_path / "in") as plain, served_set(tmp_path) as filtered:
        before = [get(server, "/000000.tar") for server in (plain, filtered)]
        new = write_tar(tmp_path / "new", entries(5, 8)).read_bytes()
        os.replace(tmp_path / "new", shard)
        status, body, tag = get(plain, "/000000.tar", If_Range=before[0][2], Range="bytes=0-9")
        assert (status, body) == (200, new)
        assert tag != before[0][2]
        when = shard.stat().st_mtime_ns
        alike = tmp_path / "alike"
        alike.write_bytes(new[:-1] + b"x")
        os.utime(alike, ns=(when, when))
        os.replace(alike, shard)  # as rsync and cp -p do: another file of the same size and time
        status, body, other = get(plain, "/000000.tar")
        assert (status, body) == (200, new[:-1] + b"x")
        assert other != tag
        status, body, _ = get(filtered, "/000000.tar")
        assert status == 500
        assert b"has changed since: score again" in body
        shard.unlink()
        assert get(plain, "/000000.tar")[:2] == (500, f"{shard}: no such file\n".encode())


def test_a_shard_that_is_written_into_while_it_is_sent_breaks_the_connection(tmp_path: Path):
    shard = write_tar(tmp_path / "0.tar", [("a.txt", b"x" * (30 << 20))])
    with serving(shard) as server:
        with socket.create_connection(("127.0.0.1", int(server.url.rstrip("/").rpartition(":")[2]))) as client:
            client.sendall(b"GET /000000.tar HTTP/1.1\r\nHost: localhost\r\n\r\n")
            got = len(client.recv(1000))
            with shard.open("r+b") as file:
                file.seek(20 << 20)
                file.write(b"other")
            with contextlib.suppress(ConnectionResetError):
                while data := client.recv(1 << 20):
                    got += len(data)
        assert got < shard.stat().st_size
        assert server.process.stderr is not None
        assert server.process.stderr.readline() == f"wdsflow: cannot be served: {shard}: it changed while it was read\n"
        assert get(server, "/000000.tar")[1] == shard.read_bytes()


def test_our_own_reader_notices_that_a_served_shard_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("wdsflow.shards.source.http.WAITS", ())  # a change is no fault that may pass
    shard = write_tar(tmp_path / "0.tar", [("a.txt", b"x" * (5 << 20))])
    with serving(shard) as server, open_source(f"{server.url}000000.tar") as source:
        assert source.read_at(0, 5) == b"a.txt"
        write_tar(shard, [("b.txt", b"y" * (5 << 20))])
        with pytest.raises(SourceError, match="changed while it was read"):
            source.read_at(4 << 20, 10)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.deep)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_it_also_while_a_client_waits(tmp_path: Path, number: signal.Signals):
    shard = write_tar(tmp_path / "0.tar", [("a.txt", b"x" * (30 << 20))])
    with (
        serving(shard) as server,
        socket.create_connection(("127.0.0.1", int(server.url.strip("/").split(":")[2]))) as client,
    ):
        client.sendall(b"GET /000000.tar HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.recv(10)
        server.process.send_signal(number)
        _, errors = server.process.communicate()
        assert server.process.returncode == 128 + number
        assert errors == "wdsflow: interrupted\n"


@pytest.mark.deep
def test_a_kill_leaves_nothing_behind(tmp_path: Path):
    write_set(tmp_path, 1, 4)
    before = sorted(tmp_path.rglob("*"))
    with served_set(tmp_path) as server:
        get(server, "/000000.tar")
        server.process.kill()
        server.process.wait()
        assert sorted(tmp_path.rglob("*")) == before


def refused(*words: object) -> Done:
    done = run("serve", *words, "--port", "0")
    assert done.status == 2
    assert done.out == ""
    return done


def test_wrong_use_is_refused_with_commands_that_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_set(tmp_path, 1, 4)
    assert "no shards match 'inn'" in refused("inn").err
    done = refused("in", "--where", WHERE)
    assert "no ledger given" in done.err
    assert [command.split(" -")[0] for command in done.commands] == ["wdsflow measure in", "wdsflow serve in"]
    assert "no score is called 'nothing'" in refused("in", "--where", "nothing > 1").err
    done = refused("in", "--ledger", "scores", "--where", "aspect_ratio > 1")
    assert "scores has no aspect_ratio, which was not computed there" in done.err
    assert pasted(done.commands[0]).status == 0
    with serving(*shlex.split(done.commands[1])[2:-2], cwd=tmp_path, until="1 shard") as server:
        assert server.lines[0].startswith("serving 1 shard at ")
    assert "has no ledgers" in refused("in", "--ledger", "in", "--where", WHERE).err
    assert "the output of a command" in refused("pipe:cat in/00000.tar").err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("serve", "in", "--port", port)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(f"wdsflow: port {port} of 127.0.0.1 is taken\n")
        assert done.commands == ["wdsflow serve in --port 0"]


@pytest.mark.parametrize("host", ["192.0.2.1", "nosuchhost.invalid", "notahost..", "x" * 70])
def test_an_address_that_is_not_of_this_machine_is_refused_before_anyone_is_said_to_reach_it(tmp_path: Path, host: str):
    write_shards(tmp_path / "in", 1, 2)
    done = refused(tmp_path / "in", "--host", host)
    assert done.err.startswith(f"wdsflow: {host} cannot be listened at: ")
    assert done.commands == [f"wdsflow serve {tmp_path / 'in'} --port 0"]


def test_an_empty_address_is_refused(tmp_path: Path):
    write_shards(tmp_path / "in", 1, 2)
    done = refused(tmp_path / "in", "--host", "")
    assert "--host is empty" in done.err
    assert done.commands == [f"wdsflow serve {tmp_path / 'in'} --port 0"]


def test_compressed_shards_alone_are_refused_with_commands_that_unpack_and_serve_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "in", 1, 2)
    subprocess.run(["gzip", tmp_path / "in" / "00000.tar"], check=True)
    done = refused("in/00000.tar.gz")
    assert "the only shard is compressed" in done.err
    assert done.commands == ["wdsflow repair in/00000.tar.gz -o unpacked", "wdsflow serve unpacked --port 0"]
    assert pasted(done.commands[0]).status == 0
    with serving("unpacked") as server:
        assert get(server, "/000000.tar")[0] == 200


def test_a_filter_that_keeps_nothing_ends_the_server(tmp_path: Path):
    write_set(tmp_path, 1, 4)
    done = run("serve", tmp_path / "in", "--ledger", tmp_path / "scores", "--where", "min_side > 99999", "--port", 0)
    assert done.status == 1
    assert "     0  kept" in done.out
    assert "nothing is served: no sample is left" in done.err
    assert done.commands == [f"wdsflow serve {tmp_path / 'in'} --port 0"]
    write_tar(tmp_path / "scored.tar", entries(5, 2))
    os.replace(tmp_path / "scored.tar", tmp_path / "in" / "00000.tar")
    done = run("serve", tmp_path / "in", "--ledger", tmp_path / "scores", "--where", WHERE, "--port", 0)
    assert done.status == 2
    assert "nothing is served: no shard can be" in done.err


@pytest.mark.sample(1)
@pytest.mark.parametrize("request_", [b"GET / HTTP/1.1", b"GET http://[ HTTP/1.1", b"nonsense"])
def test_malformed_requests_are_answered_and_not_logged(tmp_path: Path, request_: bytes):
    write_shards(tmp_path / "in", 1, 2)
    with serving(tmp_path / "in") as server:
        with socket.create_connection(("127.0.0.1", int(server.url.rstrip("/").rpartition(":")[2]))) as client:
            client.sendall(request_ + b"\r\n\r\n")
            assert b" 400 Bad Request" in client.recv(1000)
        server.process.terminate()
        assert server.process.communicate()[1] == "wdsflow: interrupted\n"


@pytest.mark.deep
def test_a_compressed_shard_is_refused_with_the_command_that_unpacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "in", 2, 4)
    subprocess.run(["gzip", tmp_path / "in" / "00001.tar"], check=True)
    with serving("in", until="cannot be served") as server:
        status, body, _ = get(server, "/000001.tar")
        assert status == 500
        command = re.search("wdsflow repair .*", body.decode())
        assert command is not None
        assert pasted(command[0]).status == 0
        assert get(server, "/sizes.json")[0] == get(server, "/__len__")[0] == 500
        assert b"000001.tar" in get(server, "/")[1]
    with serving("unpacked") as server:
        assert get(server, "/000000.tar")[1] == (tmp_path / "unpacked" / "00001.tar").read_bytes()


def test_it_listens_elsewhere_only_when_told_to_and_says_who_can_read(tmp_path: Path):
    write_shards(tmp_path / "in", 1, 2)
    with serving("in", "--host", "0.0.0.0", cwd=tmp_path) as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        assert server.url == f"http://{socket.gethostname()}:{port}/"
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            assert ask(connection, "/000000.tar", Host="machine.example").status == 200
        server.process.terminate()
        assert server.process.communicate()[1].startswith("wdsflow: everyone who reaches 0.0.0.0 can read these shards")


def test_the_printed_commands_work_as_they_are_pasted(tmp_path: Path):
    pytest.importorskip("open_clip_train")
    write_set(tmp_path, 3, 20)
    with served_set(tmp_path) as server:
        ours, theirs = (line.strip() for line in server.lines if "--train-data" in line)
        looked = ours.replace("wdsflow train", "wdsflow train --dry-run") + " --batch-size 4 --workers 1"
        done = pasted(looked)
        assert done.status == 0
        assert "36 of 36 samples reach a batch" in done.out
        words = shlex.split(theirs)
        assert words[:3] == ["python", "-m", "open_clip_train.main"]
        assert words[-3:] == ["36", "--dataset-type", "webdataset"]


@pytest.mark.deep
def test_openclip_trains_by_the_printed_command(tmp_path: Path):
    from tests.training import trainings

    pytest.importorskip("open_clip_train")
    trainings.write_data(tmp_path)
    write_set(tmp_path, 2, 20)
    with served_set(tmp_path) as server:
        words = shlex.split(next(line for line in server.lines if "open_clip_train" in line).strip())
        more = trainings.command(tmp_path, "served")
        del more[:4]  # train-data and train-num-samples are printed
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *words[1:], *more], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "Eval Epoch" in done.stderr or "Train Epoch: 1" in done.stderr


@pytest.mark.deep
def test_shards_of_a_server_are_served_in_turn(tmp_path: Path):
    write_shards(tmp_path / "in", 2, 5)
    with serving(tmp_path / "in") as first, serving(first.pattern, until="wdsflow train") as second:
        for number in range(2):
            data = (tmp_path / "in" / f"{number:05d}.tar").read_bytes()
            assert get(second, f"/{number:06d}.tar")[1] == data
            assert get(second, f"/{number:06d}.tar", Range="bytes=1000-5000")[1] == data[1000:5001]
        assert get(second, "/__len__")[1] == b"10\n"
