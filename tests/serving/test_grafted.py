"""A served graft has the bytes that graft writes, also after a filter, and its refusals are those of graft."""

import contextlib
import json
from pathlib import Path

import pytest

from tests.filtering.commands import run
from tests.serving.served import WHERE, ask, serving, write_set
from tests.shards.archives import read_tar, tar_bytes

JOIN = ("--on", "key", "--set", "txt=caption", "--set", "json:more=extra")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards, and a table with rows for most of their samples, and for others."""
    folder = write_set(tmp_path_factory.mktemp("set"))
    keys = [f"{shard:03d}{sample:04d}" for shard in range(3) for sample in range(20) if sample % 7]
    rows = [{"key": key, "caption": f"a new caption of {key}", "extra": len(key)} for key in (*keys, "9990000")]
    (folder / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def tars(*words: object) -> tuple[list[bytes], str]:
    """Serve three shards, and return their bytes, and what was printed."""
    with serving(*words) as server, contextlib.closing(server.connect()) as connection:
        bodies = []
        for number in range(3):
            reply = ask(connection, f"/{number:06d}.tar")
            assert reply.status == 200, reply.body
            part = ask(connection, f"/{number:06d}.tar", Range="bytes=700-9000")
            assert part.body == reply.body[700:9001]
            bodies.append(reply.body)
        sizes = json.loads(ask(connection, "/sizes.json").body)
        assert [sizes.get(f"{number:06d}.tar", 0) for number in range(3)] == [
            len({name.partition(".")[0] for name, _ in _members(body)}) for body in bodies
        ]
        return bodies, "\n".join(server.lines)


def _members(body: bytes) -> list[tuple[str, bytes]]:
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        return [(info.name, b"") for info in tar]


def written(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("*.tar"))]


@pytest.mark.parametrize(
    "more", [pytest.param((), marks=pytest.mark.deep), ("--drop-unmatched",)], ids=["all", "matched"]
)
def test_grafted_tars_are_those_that_graft_writes(folder: Path, tmp_path: Path, more: tuple[str, ...]):
    assert run("graft", folder / "in", "--from", folder / "new.jsonl", *JOIN, *more, "-o", tmp_path / "out").status == 0
    served, printed = tars(folder / "in", "--graft", folder / "new.jsonl", *JOIN, *more)
    assert served == written(tmp_path / "out")
    assert (
        "51 of 60 samples have a row in the table; 9 have none, 0 are ambiguous, 0 have no value to join on" in printed
    )
    assert f"{51 if more else 60:>6}  kept" in printed


@pytest.mark.deep
def test_a_filter_comes_before_the_graft(folder: Path, tmp_path: Path):
    assert run("graft", folder / "cut", "--from", folder / "new.jsonl", *JOIN, "-o", tmp_path / "out").status == 0
    words = ("--ledger", folder / "scores", "--where", WHERE, "--graft", folder / "new.jsonl", *JOIN)
    served, printed = tars(folder / "in", *words)
    assert served == written(tmp_path / "out")
    assert "36  kept" in printed
    assert "of 36 samples have a row" in printed


@pytest.mark.deep
def test_joins_that_graft_refuses_are_refused_with_commands_to_paste(folder: Path, tmp_path: Path):
    table = tmp_path / "twice.jsonl"
    table.write_text((folder / "new.jsonl").read_text() * 2)
    done = run("serve", folder / "in", "--graft", table, *JOIN, "--port", 0)
    assert done.status == 2
    assert "51 samples with several rows of the table each" in done.err
    served, _ = tars(*done.commands[0].split()[2:-2])
    table.write_text((folder / "new.jsonl").read_text())
    assert served == tars(folder / "in", "--graft", table, *JOIN)[0]
    assert run("serve", folder / "in", "--graft", table, "--on", "key", "--set", "txt=captoin").status == 2
    assert "--graft needs what to join on" in run("serve", folder / "in", "--graft", table).err
    assert "name it with --graft" in run("serve", folder / "in", "--on", "key").err
    table.write_text('{"key": "nothing", "caption": "x", "extra": 1}\n')
    done = run("serve", folder / "in", "--graft", table, *JOIN, "--port", 0)
    assert (done.status, done.out) == (1, "")
    assert "none of 60 samples has a row" in done.err


def test_a_join_without_rows_says_that_nothing_is_served(folder: Path, tmp_path: Path):
    table = tmp_path / "empty.csv"
    table.write_text("key,caption,extra\n")
    done = run("serve", folder / "in", "--graft", table, *JOIN, "--port", 0)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("wdsflow: nothing is served: ")


def test_a_ledger_that_keeps_nothing_is_named_as_the_cause(folder: Path):
    words = ("--graft", folder / "new.jsonl", *JOIN, "--ledger", folder / "scores", "--where", "min_side > 99999")
    done = run("serve", folder / "in", *words, "--port", 0)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("wdsflow: nothing is served: min_side > 99999 keeps none of 60 samples\n")


def test_one_sample_has_a_row(folder: Path, tmp_path: Path):
    table = tmp_path / "one.jsonl"
    table.write_text((folder / "new.jsonl").read_text().splitlines()[0] + "\n")
    with serving(folder / "in", "--graft", table, *JOIN) as server:
        assert any(line.startswith("1 of 60 samples has a row in the table; 59 have none") for line in server.lines)


@pytest.mark.deep
def test_a_shard_that_changed_after_the_join_is_not_served(folder: Path, tmp_path: Path):
    write_set(tmp_path, 1, 4)
    shard = tmp_path / "in" / "00000.tar"
    with serving(tmp_path / "in", "--graft", folder / "new.jsonl", *JOIN) as server:
        members = read_tar(shard)
        shard.write_bytes(tar_bytes([(name, b"other") for name, _ in members]))
        with contextlib.closing(server.connect()) as connection:
            reply = ask(connection, "/000000.tar")
        assert reply.status == 500
        assert b"changed" in reply.body
