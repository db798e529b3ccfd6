"""Commands that write into S3, with a real server on loopback.

The objects are the same as the files of a local run.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("s3fs")
pytest.importorskip("moto")

import fsspec

from tests.filtering.shards import write_shards
from tests.servers import Log, put, s3_server, use_s3
from tests.training.shards import jpeg
from wdsflow.cli.main import main
from wdsflow.records.object_store.store_objects import StoreObjects
from wdsflow.shards.source import retries as faults

WHERE = ("--where", "caption_words >= 2", "--jobs", "0")
COMMANDS = {
    "filter": WHERE,
    "measure": ("--scores", "min_side,caption_words", "--jobs", "0"),
    "repair": (),
    "reshard": ("--folds", "2"),
    "graft": ("--from", "table.csv", "--on", "key=key", "--set", "txt=caption"),
}
QUICK = ("filter", "repair", "reshard")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("s3")
    write_shards(folder / "set")
    rows = "".join(f"{number:07},new caption {number}\n" for number in range(60))
    (folder / "table.csv").write_text(f"key,caption\n{rows}")
    with pytest.MonkeyPatch.context() as patch, s3_server() as (url, port, log):
        use_s3(patch, url, folder)
        patch.setenv("AWS_MAX_ATTEMPTS", "1")  # botocore's own tries
        put(port, "bucket", b"")
        log.port = port
        yield folder, log


@pytest.fixture
def s3(server, monkeypatch):
    """The folder with inputs, and the log of the server, whose bucket is empty."""
    monkeypatch.setattr(faults, "WAITS", (0.0, 0.0))
    monkeypatch.chdir(server[0])
    server[1].clear()
    system = fsspec.filesystem("s3")
    system.invalidate_cache()
    if names := system.find("bucket"):
        system.rm(names)
    for upload in system.call_s3("list_multipart_uploads", Bucket="bucket").get("Uploads", ()):
        named = {"Bucket": "bucket", "Key": upload["Key"], "UploadId": upload["UploadId"]}
        system.call_s3("abort_multipart_upload", **named)
    server[1].clear()
    return server


def words(name, out):
    return (name, "set", "-o", str(out), *COMMANDS[name])


def run(*typed):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in typed])
    return int(ended.value.code or 0)


def tree(folder):
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def objects(prefix="out"):
    system = fsspec.filesystem("s3")
    system.invalidate_cache()
    root = f"bucket/{prefix}/"
    return {name.removeprefix(root): system.cat_file(name) for name in system.find(root)}


def printed(capsys):
    told = capsys.readouterr()
    assert "/tmp/" not in told.out + told.err.replace(sys.executable, "")
    return told.out + told.err


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.deep) for name in COMMANDS],
)
def test_the_objects_are_the_files_of_a_local_run_and_the_messages_name_the_url(
    s3, tmp_path, capsys, name
):
    assert run(*words(name, tmp_path / "out")) == 0
    local = capsys.readouterr().out
    assert run(*words(name, "s3://bucket/out")) == 0
    there = printed(capsys)
    assert objects() == tree(tmp_path / "out")
    swapped = there.replace("s3://bucket/out", str(tmp_path / "out"))
    swapped = re.sub(r"(validate \S+)/$", r"\1", swapped, flags=re.MULTILINE)
    # Further commands for ledgers.
    needs_folder = ("to choose", "to see what was dropped", "next: wdsflow scores")
    assert swapped == "".join(
        line for line in local.splitlines(keepends=True) if not line.startswith(needs_folder)
    )


@pytest.mark.deep
def test_lists_of_samples_are_those_of_a_local_run(s3, tmp_path):
    here, there = tmp_path / "here.txt", tmp_path / "there.txt"
    assert run(*words("filter", tmp_path / "out"), "--export", here) == 0
    assert run(*words("filter", "s3://bucket/out"), "--export", there) == 0
    assert len(here.read_bytes().splitlines()) == 48
    assert there.read_bytes() == here.read_bytes()


@pytest.mark.deep
def test_cut_writes_what_it_writes_to_a_folder(s3, tmp_path):
    assert run(*words("measure", tmp_path / "scores")) == 0
    cut = ("--ledger", tmp_path / "scores", "--where", "caption_words >= 2", "--jobs", "0")
    assert run("filter", "set", "-o", tmp_path / "out", *cut) == 0
    assert run("filter", "set", "-o", "s3://bucket/out", *cut) == 0
    assert objects() == tree(tmp_path / "out")


def killed(log, name, after):
    """Kill a command after a number of requests, and return whether it was still running."""
    done = len(log.asked)
    code = "import sys; from wdsflow.cli.main import main; main(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words(name, "s3://bucket/out")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and len(log.asked) < done + after:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "kills"), [(name, 20 if name == "filter" else 6) for name in COMMANDS]
)
def test_after_kills_at_any_time_the_same_command_leaves_the_same_objects(
    s3, tmp_path, name, kills
):
    run(*words(name, tmp_path / "out"))
    right = tree(tmp_path / "out")
    draw = Random(name)
    for _ in range(kills):
        killed(s3[1], name, draw.randrange(8, 40))
        for each, data in objects().items():
            if each.endswith(".tar"):
                assert data in right.values()
    assert run(*words(name, "s3://bucket/out")) == 0
    assert objects() == right


def fails(status, code, key):
    """Return a fault: the server does not store a key, and says why."""

    def twist(asked, answer):
        if asked.method == "PUT" and asked.path.endswith(key):
            answer.status = status
            answer.body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>says no</Message></Error>".encode()
            answer.headers["Content-Length"] = str(len(answer.body))

    return twist


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "status", "code", "tries"),
    [
        ("filter", 400, "ExpiredToken", 1),
        ("repair", 500, "InternalError", 3),
        *(
            pytest.param(name, 403, "AccessDenied", 1, marks=pytest.mark.deep)
            for name in ("filter", "repair", "graft")
        ),
    ],
)
def test_a_store_that_fails_ends_the_run_with_a_message_and_the_same_command_resumes(
    s3, tmp_path, capsys, name, status, code, tries
):
    s3[1].twist = fails(status, code, "00001.tar")
    assert run(*words(name, "s3://bucket/out")) == 2
    told = printed(capsys)
    assert f"cannot write: {'' if tries > 1 else f'status {status}: '}" in told
    assert "says no: s3://bucket/out/00001.tar" in told.replace("[Errno 121] ", "")
    assert (
        f"to resume when that is fixed: wdsflow {words(name, '')[0]} set -o s3://bucket/out" in told
    )
    assert sum(asked.method == "PUT" for asked in s3[1].of("00001.tar")) == tries
    s3[1].clear()
    assert run(*words(name, "s3://bucket/out")) == 0
    assert run(*words(name, tmp_path / "out")) == 0
    assert objects() == tree(tmp_path / "out")


def test_a_bucket_that_does_not_exist_is_named(s3, capsys):
    assert run(*words("repair", "s3://nowhere/out")) == 2
    assert "The specified bucket does not exist: s3://nowhere/out" in printed(capsys)


def test_what_cannot_work_with_a_store_is_refused_before_it_is_asked(s3, capsys):
    for more, why in (
        (("--shard-index", "0", "--shard-count", "2"), "slices cannot share s3://bucket/out"),
        (("--quarantine", "aside"), "--quarantine is for local folders"),
    ):
        assert run(*words("filter", "s3://bucket/out"), *more) == 2
        told = printed(capsys)
        assert why in told
        assert told.splitlines()[-1].strip() == "wdsflow " + " ".join(
            map(shlex.quote, words("filter", "s3://bucket/out"))
        )
    assert not s3[1].asked


@pytest.mark.deep
def test_uploads_that_a_killed_run_began_are_aborted_and_others_are_not(s3):
    system = fsspec.filesystem("s3")
    s3[1].twist = fails(403, "AccessDenied", "00001.tar")
    run(*words("repair", "s3://bucket/out"))
    s3[1].clear()
    for key in ("out/00001.tar", "out/other.tar"):
        system.call_s3("create_multipart_upload", Bucket="bucket", Key=key)
    assert run(*words("repair", "s3://bucket/out")) == 0
    left = system.call_s3("list_multipart_uploads", Bucket="bucket").get("Uploads", ())
    assert [each["Key"] for each in left] == ["out/other.tar"]


@pytest.mark.deep
def test_validate_reports_an_unfinished_run_and_the_command_that_resumes_it(s3, capsys):
    s3[1].twist = fails(403, "AccessDenied", "00001.tar")
    run(*words("repair", "s3://bucket/out"))
    s3[1].clear()
    capsys.readouterr()
    assert run("validate", "s3://bucket/out/", "--jobs", "1") == 1
    told = printed(capsys)
    assert "P307" in told
    assert "wdsflow repair set -o s3://bucket/out" in told
    assert run(*words("repair", "s3://bucket/out")) == 0
    run("validate", "s3://bucket/out/", "--jobs", "1")
    assert "P307" not in printed(capsys)


@pytest.mark.deep
def test_the_status_of_a_run_is_read_without_its_lock(s3, capsys):
    assert run("status", "s3://bucket/out") == 2
    s3[1].twist = fails(403, "AccessDenied", "00001.tar")
    run(*words("repair", "s3://bucket/out"))
    s3[1].clear()
    capsys.readouterr()
    assert run("status", "s3://bucket/out") == 1
    told = capsys.readouterr().out
    assert re.search(
        r"^repair: ([12]) of 3 shards done; .*\n  dead, \1 of 3 shards done \(process", told
    )
    again = shlex.split(told.splitlines()[-1])[1:]
    assert run(*again) == 0
    before = objects()
    assert run("status", "s3://bucket/out") == 0
    assert objects() == before


_KILLED_IN_FIRST_PASS = """
import os, signal, sys
from wdsflow.cli.main import main
from wdsflow.packing.rows.pack_planner import PackPlanner
PackPlanner.read = lambda self: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


@pytest.mark.deep
def test_a_pack_that_was_killed_while_it_read_its_table_is_known(s3, tmp_path, capsys):
    (tmp_path / "images").mkdir()
    rows = []
    for number in range(4):
        (tmp_path / "images" / f"{number}.jpg").write_bytes(jpeg(number))
        rows.append(f'{{"image": "images/{number}.jpg", "caption": "picture {number}"}}\n')
    (tmp_path / "rows.jsonl").write_text("".join(rows))
    pack = ("pack", str(tmp_path / "rows.jsonl"), "-o", "s3://bucket/out")
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED_IN_FIRST_PASS, *pack], check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL
    assert run("status", "s3://bucket/out") == 1
    told = capsys.readouterr().out
    assert told.startswith(
        "pack: no shard yet, it reads its inputs first\n  dead (it was killed while it read its inputs)"
    )
    again = shlex.split(told.splitlines()[-1])
    assert again == ["wdsflow", *pack]
    assert run(*again[1:]) == 0
    assert run("status", "s3://bucket/out") == 0


def test_a_pack_whose_table_is_refused_leaves_nothing(s3, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"number": 1}\n')
    assert run("pack", str(tmp_path / "rows.jsonl"), "-o", "s3://bucket/out") == 2
    assert objects() == {}


def test_a_command_that_another_run_keeps_out_says_who_works_there(s3, capsys):
    from wdsflow.records.working_folder import working_folder

    with working_folder("s3://bucket/out"):
        assert run(*words("repair", "s3://bucket/out")) == 2
    told = printed(capsys)
    assert f"another run works in s3://bucket/out (process {os.getpid()} on " in told
    assert "wdsflow repair set -o s3://bucket/out-2" in told
    assert objects() == {}


def test_only_the_uploads_of_the_named_objects_are_aborted(s3: tuple[Path, Log]) -> None:
    system = fsspec.filesystem("s3")
    for key in ("out/00001.tar", "out/other.tar", "elsewhere/00001.tar"):
        system.call_s3("create_multipart_upload", Bucket="bucket", Key=key)

    StoreObjects("s3://bucket/out").abort_uploads(["00001.tar", "00002.tar"])

    uploads = system.call_s3("list_multipart_uploads", Bucket="bucket")["Uploads"]
    assert sorted(upload["Key"] for upload in uploads) == ["elsewhere/00001.tar", "out/other.tar"]
