"""Folders whose run has not written all shards.

No file counts the shards, ``validate`` reports it, and the command that it prints finishes the
work.
"""

import json
import random
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_unwritable import full_disk, run
from tests.filtering.shards import digests
from tests.shards.archives import JPEG, write_tar
from wdsflow import check
from wdsflow.records.folder_lock import is_held
from wdsflow.records.unfinished import begin_shards, resumed_by, unfinished_run

ROOM = 200_000  # bytes of a file: the third shard is larger
COMMANDS = {
    "repair": ("repair", "in", "-o", "out", "--jobs", 1),
    "reshard": ("reshard", "in", "-o", "out", "--jobs", 1),
    "pack": ("pack", "p.jsonl", "-o", "out", "--samples", 8, "--jobs", 1),
    "graft": (
        "graft",
        "in",
        "-o",
        "out",
        "--from",
        "t.jsonl",
        "--on",
        "key",
        "--set",
        "txt=c",
        "--jobs",
        1,
    ),
    "filter": ("filter", "in", "-o", "out", "--where", "bytes > 0", "--jobs", 0),
}
RECORDS = {".wdsflow/run.json", ".wdsflow/manifest.jsonl", ".wdsflow/unfinished.json"}


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write four shards of eight samples, the later ones larger, with two tables.

    ``t.jsonl`` has texts by key; ``p.jsonl`` names pictures in files. All are in the working
    folder.
    """
    for name in ("in", "pics"):
        (tmp_path / name).mkdir()
    rows, named = [], []
    for shard in range(4):
        entries = []
        for n in range(8):
            image = JPEG + random.Random(n).randbytes(15_000 * shard)
            entries += [(f"{shard}{n}.jpg", image), (f"{shard}{n}.txt", b"a caption")]
            rows.append({"key": f"{shard}{n}", "c": f"new {n}"})
            (tmp_path / f"pics/{shard}{n}.jpg").write_bytes(image)
            named.append({"image": f"pics/{shard}{n}.jpg", "caption": "a caption"})
        write_tar(tmp_path / "in" / f"{shard:05}.tar", entries)
    for name, lines in (("t", rows), ("p", named)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def is_record(name: str, command: str) -> bool:
    """Return whether a file in an unfinished folder is of use to resume.

    It is a finished shard, or a record of one.
    """
    states = {f".wdsflow/state-{name}.json" for name in (command, "manifest")}
    ours = {f".wdsflow/{command}.json", f".wdsflow/{command}.jsonl"} | RECORDS | states
    return (
        name in ours
        or (name.endswith(".tar") and "/" not in name)
        or name.startswith(".wdsflow/ledger/")
    )


def unfinished(folder: str = "out") -> list[str]:
    """Return the commands of the findings on unfinished runs; they are errors."""
    report = check(folder, level="names", select=["P307"])
    assert report.ok == (not report.findings)
    return [finding.repair.command for finding in report.findings if finding.repair]


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", COMMANDS)
def test_after_a_full_disk_a_folder_is_known_as_unfinished_until_the_printed_command_ended_the_work(
    command, shards: Path, capsys
):
    words = COMMANDS[command]
    assert run(*words) == 0
    whole = digests(shards / "out")
    shutil.rmtree("out")
    with full_disk(ROOM):
        assert run(*words) == 2
    left = files(shards / "out")
    assert {name for name in left if name.endswith(".tar")} == {"00000.tar", "00001.tar"}
    assert [name for name in left if not is_record(name, command)] == []
    (fix,) = unfinished()
    found = unfinished_run("out")
    assert (found.run, found.shards, found.command) == (command, 4, fix)
    assert run(*shlex.split(fix)[1:]) == 0
    assert digests(shards / "out") == whole
    assert unfinished() == []
    assert json.loads((shards / "out/sizes.json").read_text()) == {
        f"0000{n}.tar": 8 for n in range(4)
    }


@pytest.mark.deep
def test_counts_of_a_finished_folder_go_while_it_is_written_again(shards: Path):
    assert run(*COMMANDS["repair"]) == 0
    write_tar(shards / "in" / "00003.tar", [("a.jpg", JPEG + bytes(300_000)), ("a.txt", b"x")])
    with full_disk(ROOM):
        assert run(*COMMANDS["repair"]) == 2
    assert not {"sizes.json", "__len__"} & files(shards / "out")
    assert run(*COMMANDS["repair"]) == 0
    assert json.loads((shards / "out/sizes.json").read_text())["00003.tar"] == 1
    assert ".wdsflow/sizes.json" not in files(shards / "out")


@pytest.mark.parametrize("command", ["repair", "filter"])
def test_a_run_that_wrote_no_shard_leaves_the_counts_of_others_as_they_were(command, shards: Path):
    (shards / "out").mkdir()
    (shards / "out/sizes.json").write_text('{"mine.tar":3}')
    (shards / "out/__len__").write_text("3")
    with full_disk(1000):
        assert run(*COMMANDS[command]) == 2
    assert files(shards / "out") == {"sizes.json", "__len__"}
    assert (shards / "out/sizes.json").read_text() == '{"mine.tar":3}'


def test_a_command_is_printed_from_another_folder_and_nothing_that_runs_programs(
    shards: Path, monkeypatch
):
    with full_disk(ROOM):
        run(*COMMANDS["repair"])
    (fix,) = unfinished()
    monkeypatch.chdir("/")
    assert unfinished(str(shards / "out")) == [f"cd {shards} && {fix}"]
    done = subprocess.run(
        unfinished(str(shards / "out"))[0].replace("wdsflow", f"{sys.executable} -m wdsflow"),
        shell=True,
        check=False,
    )
    assert done.returncode == 0
    assert unfinished(str(shards / "out")) == []
    mark = shards / "out/.wdsflow/unfinished.json"
    about = {"run": "repair", "shards": 1, "place": str(shards)}
    for hostile in (
        "rm -rf x",
        "wdsflow repair 'pipe:rm x' --allow-pipe",
        "wdsflow train x",
        "wdsflow repair 'x",
        "\x1b[2J",
    ):
        mark.write_text(json.dumps({**about, "command": hostile}))
        assert unfinished(str(shards / "out")) == []
        assert not check(str(shards / "out"), level="names", select=["P307"]).ok
    mark.write_text(json.dumps({**about, "command": "wdsflow repair a; rm x"}))
    assert unfinished(str(shards / "out")) == [f"cd {shards} && wdsflow repair 'a;' rm x"]
    for broken in ("", "[]", "{}", "\0"):
        mark.write_text(broken)
        assert not check(str(shards / "out"), level="names", select=["P307"]).ok


def killed(command: list[str], mark: Path) -> None:
    """Kill a command as soon as a file exists."""
    process = subprocess.Popen(
        [sys.executable, "-m", "wdsflow", *command], stdout=subprocess.DEVNULL
    )
    while not mark.exists():
        assert process.poll() is None
        time.sleep(0.002)
    process.kill()
    process.wait()


@pytest.mark.parametrize("named", ["out", "out/", "out/{00000..00003}.tar", "out/*.tar"])
def test_a_folder_without_any_of_its_shards_is_answered_with_the_command_that_resumes(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("out/.wdsflow").mkdir(parents=True)
    told = "  wdsflow pack did not finish, or still runs: none of its shards are written"
    for command in ("wdsflow pack p.jsonl -o out", "", "rm -rf out"):
        with resumed_by(command):
            begin_shards(Path("out"), "pack", 4)
        assert run("validate", named) == 2
        first, *advised = capsys.readouterr().err.splitlines()
        assert first == f"wdsflow: no shards match '{named}'"
        resume = [f"  to resume it: {command}"] if command.startswith("wdsflow") else []
        assert advised == [told, *resume]


@pytest.mark.deep
@pytest.mark.parametrize("named", ["out", "out/", "out/{00000..00003}.tar", "out/*.tar"])
def test_a_folder_whose_pack_was_killed_before_its_first_shard_is_known_as_unfinished(
    named, shards: Path, capsys
):
    rows = Path("p.jsonl").read_text()
    Path("p.jsonl").write_text(rows * 20_000)
    killed(["pack", "p.jsonl", "-o", "out"], shards / "out/.wdsflow/unfinished.json")
    assert not list(shards.glob("out/*.tar"))
    Path("p.jsonl").write_text(rows)
    assert run("validate", named) == 2
    printed = capsys.readouterr().err
    assert "wdsflow pack did not finish, or still runs: none of its shards are written" in printed
    (line,) = [line for line in printed.splitlines() if "to resume it: " in line]
    assert run(*shlex.split(line.partition(": ")[2])[1:]) == 0
    assert unfinished() == []
    assert run("validate", named.replace("00003", "00000"), "--level", "names") in (0, 1)


@pytest.mark.deep
def test_the_status_of_a_pack_that_was_killed_before_its_first_shard_has_the_command_that_resumes(
    shards: Path, capsys
):
    rows = Path("p.jsonl").read_text()
    Path("p.jsonl").write_text(rows * 20_000)
    mark = shards / "out/.wdsflow/unfinished.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "wdsflow", "pack", "p.jsonl", "-o", "out"], stdout=-3
    )
    while not mark.exists():
        assert process.poll() is None
        time.sleep(0.002)
    assert run("status", "out") == 1
    assert capsys.readouterr().out == "pack: no shard yet, it reads its inputs first\n  running\n"
    process.kill()
    process.wait()
    while is_held(shards / "out/.wdsflow/lock"):  # by a worker that has not noticed yet
        time.sleep(0.02)
    Path("p.jsonl").write_text(rows)
    assert run("status", "out") == 1
    first, second, third, command = capsys.readouterr().out.splitlines()
    assert first == "pack: no shard yet, it reads its inputs first"
    assert second == "  dead (it was killed while it read its inputs)"
    assert third == "to complete it:"
    assert run("status", "out", "--json") == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["run"], found["complete"], found["slices"][0]["phase"]) == ("pack", False, "dead")
    assert run(*shlex.split(command)[1:]) == 0
    capsys.readouterr()
    assert run("status", "out") == 0
    assert capsys.readouterr().out.endswith("complete\n")


def test_a_pack_that_ends_while_it_reads_its_table_leaves_nothing(shards: Path):
    Path("p.jsonl").write_text(Path("p.jsonl").read_text() + "{no json\n")
    assert run("pack", "p.jsonl", "-o", "out") == 2
    assert not (shards / "out").exists()


LEFT = {  # of a run that was killed, and of its processes
    "repair": ["", ".wdsflow"],
    "reshard": ["", ".wdsflow", ".wdsflow/reshard-scratch", ".wdsflow/reshard-scratch/copies"],
    "pack": ["", ".wdsflow", ".wdsflow/pack-scratch"],
    "graft": ["", ".wdsflow", ".wdsflow/graft", ".wdsflow/graft/table"],
    "filter": [
        "",
        ".wdsflow",
        *(f".wdsflow/{name}" for name in ("ledger", "resolved", "spool", "quarantine")),
    ],
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", LEFT)
def test_the_next_run_removes_all_that_a_killed_one_left(command, shards: Path):
    assert run(*COMMANDS[command]) == 0
    whole = files(shards / "out")
    shutil.rmtree("out")
    for folder in LEFT[command]:
        (shards / "out" / folder).mkdir(parents=True, exist_ok=True)
        (shards / "out" / folder / "00000.tar.0a1b2c3d.wdsflow.tmp").write_bytes(b"a part")
    for name in (
        "lock",
        *(["lock-prepare", "lock-finish", "lock.workers"] if command == "filter" else []),
    ):
        (shards / "out/.wdsflow" / name).touch()
    if command == "graft":
        (shards / "out/.wdsflow/graft/00000.rows").write_bytes(b"1")
    assert run(*COMMANDS[command]) == 0
    assert files(shards / "out") == whole
    assert [path for path in shards.rglob("*") if path.is_dir() and not any(path.iterdir())] == []


MOUNTED = """
set -e
mount -t tmpfs -o size={size} none disk
set +e
"$@"
echo "status $?"
find disk -type f | sort
mount -o remount,size=50m disk
"$@" > /dev/null
echo "status $?"
find disk -name "*.tar" | sort | xargs sha256sum
find disk -type f | sort
"""


@pytest.mark.deep
@pytest.mark.parametrize("size", ["100k", "500k"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_real_full_disk_leaves_what_the_next_run_ends(command, size, shards: Path):
    unshare = ["unshare", "-rm"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no disk of our own without user namespaces")
    run(*COMMANDS[command])
    whole = digests(shards / "out")
    (shards / "disk").mkdir()
    words = [
        sys.executable,
        "-m",
        "wdsflow",
        *("disk/out" if word == "out" else str(word) for word in COMMANDS[command]),
    ]
    line = [*unshare, "sh", "-c", MOUNTED.format(size=size), "sh", *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    before, _, after = done.stdout.partition("status 2\n")
    assert before == "", done
    left, _, after = after.partition("status 0\n")
    names = [line.removeprefix("disk/out/") for line in left.splitlines()]
    assert [name for name in names if not is_record(name, command)] == []
    sums = [line.split() for line in after.splitlines() if "  " in line]
    assert {name.removeprefix("disk/out/"): digest for digest, name in sums} == {
        name: digest for name, digest in whole.items() if name.endswith(".tar")
    }
    now = [line.removeprefix("disk/out/") for line in after.splitlines() if "  " not in line]
    assert set(now) == files(shards / "out")
