"""Runs that are killed, interrupted, or find the disk full.

Another call ends with the same bytes as an undisturbed run.

``WDSFLOW_KILLS=1`` kills at every change of a file, not only at one of each kind.
"""

import multiprocessing
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.distributions import write_distribution
from tests.filtering.shards import digests, write_shards
from tests.processes import await_end
from tests.shards.archives import names
from wdsflow import Recipe, RunOptions, filter_shards
from wdsflow.stages import CleanText, Rename

KILLS = bool(int(os.environ.get("WDSFLOW_KILLS", "0")))
ROOT = Path(__file__).resolve().parent.parent.parent
WHERE = "min_side >= 200 and caption_words >= 2"
MODULES = [
    *(
        "tests.filtering.test_interruptions",
        "pyarrow.parquet",
        "xxhash",
        "ftfy",
        "pydantic",
        "PIL.JpegImagePlugin",
    ),
    *(
        "wdsflow.images.jpeg",
        "wdsflow.stages.scores.pixels",
        "wdsflow.stages.scores.comparing.near_hashes",
    ),
]


def command(*words: object, path: Path | None = None) -> tuple[list[str], dict[str, str]]:
    parts = [str(ROOT), *([str(path)] if path else []), os.environ.get("PYTHONPATH", "")]
    return [sys.executable, "-m", "wdsflow", *map(str, words)], {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(parts),
    }


def run(*words: object, path: Path | None = None, **options) -> subprocess.CompletedProcess[str]:
    line, environment = command(*words, path=path)
    return subprocess.run(
        line, env=environment, capture_output=True, text=True, check=False, **options
    )


def check_names(out: Path, whole: dict[str, str]) -> None:
    """Whatever stands under a final name is whole."""
    found = digests(out) if out.exists() else {}
    for name, digest in found.items():
        if name.endswith((".tar", ".parquet")) and not name.endswith(".wdsflow.tmp"):
            assert digest == whole.get(name), name


STAGED = (Rename({"image": "jpg"}), CleanText())
KINDS = {
    "one pass": Recipe(where=WHERE),
    "two passes": Recipe(
        where="caption_words >= 2 and not near_duplicate and not duplicate(among='kept')"
    ),
    "smaller images": Recipe(where="blur > 1", resize="100"),
    "stages": Recipe(where="caption_words >= 2 and key > '002'", stages=STAGED, image="image"),
}
CHANGES = frozenset(("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"))


def killed_at(
    event: int, log: Path | None, source: str, out: Path, recipe: Recipe, options: RunOptions
) -> None:
    """Filter, and be killed before the change of a file below ``out`` with number ``event``.

    If the run ends, it writes the changes to ``log``.
    """
    seen: list[str] = []

    def see(name: str, arguments: tuple[Any, ...]) -> None:
        if name not in CHANGES or not str(arguments[0]).startswith(str(out)):
            return
        if name == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        path = Path(str(arguments[0])).relative_to(out)
        seen.append(f"{name} {path.parent} {path.suffix}")
        if len(seen) == event:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(see)
    filter_shards(source, out, recipe, options)
    if log is not None:
        log.write_text("\n".join(seen))


def tree(folder: Path) -> dict[str, str]:
    """Return all that is below a folder: files with their digests, folders with none."""
    return {str(path.relative_to(folder)): "" for path in folder.rglob("*")} | digests(folder)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind == "one pass" else pytest.mark.deep)
        for kind in [*KINDS, "restart"]
    ],
)
def test_whatever_moment_a_run_is_killed_at_the_next_one_ends_with_the_same_files_and_no_others(
    tmp_path: Path, kind
):
    recipe, options = (
        KINDS.get(kind, KINDS["one pass"]),
        RunOptions(jobs=0, restart=kind == "restart"),
    )
    source = write_shards(tmp_path / "in", shards=2, samples=6)
    out, log = tmp_path / "out", tmp_path / "log"
    context = multiprocessing.get_context("forkserver")  # children that have imported everything
    context.set_forkserver_preload(MODULES)

    def run_until(event: int, log: Path | None = None) -> int | None:
        child = context.Process(target=killed_at, args=(event, log, source, out, recipe, options))
        child.start()
        child.join()
        return child.exitcode

    def begin() -> None:
        shutil.rmtree(out, ignore_errors=True)
        if kind == "restart":  # what another run left there, with files between its passes
            filter_shards(source, out, KINDS["two passes"], RunOptions(jobs=0))
            (out / ".wdsflow" / "spool" / "near-dead").mkdir(parents=True)
            filter_shards(source, out, KINDS["stages"], RunOptions(jobs=0, restart=True))

    begin()
    assert run_until(0, log) == 0
    whole, changes = tree(out), log.read_text().splitlines()
    assert len(changes) > 20
    firsts = sorted(changes.index(change) for change in set(changes))
    for number, at in enumerate(range(len(changes)) if KILLS else firsts):
        begin()
        assert run_until(at + 1) == -signal.SIGKILL
        check_names(out, whole | tree(out) if kind == "restart" else whole)
        if number % 4 == 0:
            run_until(1 + at * 7 % len(changes))  # and the one that resumes there
        filter_shards(source, out, recipe, options)
        assert tree(out) == whole, f"killed before: {changes[at]}"


@pytest.mark.deep
def test_workers_of_a_killed_run_end_and_the_next_run_goes_on(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=8, samples=60)
    filter_shards(
        source, tmp_path / "whole", Recipe(where=f"{WHERE} and blur >= 0"), RunOptions(jobs=0)
    )
    words = (
        "filter",
        source,
        "-o",
        tmp_path / "out",
        "--where",
        f"{WHERE} and blur >= 0",
        "--jobs",
        2,
    )
    line, environment = command(*words)
    process = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL)
    manifest = tmp_path / "out" / ".wdsflow" / "manifest.jsonl"
    while process.poll() is None and not (manifest.exists() and manifest.stat().st_size):
        time.sleep(0.002)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    assert workers
    await_end(*workers)
    check_names(tmp_path / "out", digests(tmp_path / "whole"))
    again = run(*words)
    assert again.returncode == 0, again.stderr
    assert "done before" in again.stdout
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def test_an_interrupted_run_ends_cleanly_and_goes_on(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=8, samples=60)
    words = (
        "filter",
        source,
        "-o",
        tmp_path / "out",
        "--where",
        f"{WHERE} and blur >= 0",
        "--jobs",
        1,
    )
    line, environment = command(*words)
    process = subprocess.Popen(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    manifest = tmp_path / "out" / ".wdsflow" / "manifest.jsonl"
    while process.poll() is None and not (manifest.exists() and manifest.stat().st_size):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert shlex.split(errors.partition("interrupted; to resume: wdsflow ")[2]) == [
        str(word) for word in words
    ]
    assert "Traceback" not in errors
    assert not list((tmp_path / "out").rglob("*.tmp"))
    assert run(*words).returncode == 0
    filter_shards(
        source, tmp_path / "whole", Recipe(where=f"{WHERE} and blur >= 0"), RunOptions(jobs=0)
    )
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


@pytest.mark.deep
def test_two_runs_on_one_folder_at_once_do_not_mix(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=6, samples=60)
    words = ("filter", source, "-o", tmp_path / "out", "--where", WHERE, "--jobs", 1)
    line, environment = command(*words)
    both = [
        subprocess.Popen(line, env=environment, stdout=-1, stderr=-1, text=True) for _ in range(2)
    ]
    told = [process.communicate() for process in both]
    statuses = sorted(process.returncode for process in both)
    assert statuses in ([0, 0], [0, 2])  # the second waits a little, or is refused
    if statuses == [0, 2]:
        assert any("another run works in" in errors for _, errors in told)
    filter_shards(source, tmp_path / "whole", Recipe(where=WHERE), RunOptions(jobs=0))
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


DISK = """
set -e
mount -t tmpfs -o size=700k none "$1/disk"
set +e
"$2" -m wdsflow filter "$1/in" -o "$1/disk/out" --where "$3" --jobs 0
echo "status $?"
find "$1/disk" -type f -size +0 -name "*.tmp"
find "$1/disk" -name "*.tar" -exec sha256sum {} ";"
mount -o remount,size=50m "$1/disk"
echo enlarged
"$2" -m wdsflow filter "$1/in" -o "$1/disk/out" --where "$3" --jobs 0
cp -r "$1/disk/out" "$1/copy"
"""


@pytest.mark.deep
def test_a_full_disk_leaves_no_half_file_and_the_run_goes_on_when_there_is_room(tmp_path: Path):
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("no disk of our own without user namespaces")
    source = write_shards(tmp_path / "in", shards=8, samples=40)
    filter_shards(source, tmp_path / "whole", Recipe(where=WHERE), RunOptions(jobs=0))
    whole = digests(tmp_path / "whole")
    (tmp_path / "disk").mkdir()
    _, environment = command()
    line = ["unshare", "-rm", "sh", "-c", DISK, "sh", str(tmp_path), sys.executable, WHERE]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    before, _, _ = done.stdout.partition("enlarged")
    assert "status 2" in before, done.stderr
    assert "No space left on device" in done.stderr
    assert ".tmp" not in before
    sums = [text.split()[0] for text in before.splitlines() if text.endswith(".tar")]
    assert sums
    assert set(sums) < set(whole.values())
    assert digests(tmp_path / "copy") == whole


@pytest.mark.deep
def test_a_file_that_may_not_grow_is_told_and_leaves_nothing(tmp_path: Path):
    import resource

    source = write_shards(tmp_path / "in", shards=1, samples=40)
    words = ("filter", source, "-o", tmp_path / "out", "--where", WHERE, "--jobs", 0)
    done = run(
        *words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    )
    assert done.returncode == 2
    assert "cannot write: File too large" in done.stderr
    assert not list((tmp_path / "out").rglob("*.tar"))
    assert not list((tmp_path / "out").rglob("*.tmp"))


KILLER = """
import os
import signal
from dataclasses import dataclass
from wdsflow.stages.scores.base import Score

@dataclass(frozen=True, kw_only=True)
class Killer(Score):
    name = "killer"
    tier = "header"
    kind = "number"

    def score(self, view):
        if view.key.endswith("7"):
            os.kill(os.getpid(), signal.SIGKILL)
        return 1
"""


def test_a_sample_that_kills_its_worker_is_put_aside_and_nothing_else(tmp_path: Path):
    folder = tmp_path / "site"
    write_distribution(folder, "killer", {"wdsflow.scores": {"killer": "killer:Killer"}})
    (folder / "killer.py").write_text(KILLER)
    source = write_shards(tmp_path / "in", shards=1, samples=10)
    done = run("filter", source, "-o", tmp_path / "out", "--where", "killer == 1", path=folder)
    assert done.returncode == 0, done.stderr
    assert "quarantined: killed-worker" in done.stdout
    assert names(tmp_path / "out" / ".wdsflow" / "quarantine" / "00000.tar")[0] == "0000007.jpg"
    assert len(names(tmp_path / "out" / "00000.tar")) == 27
