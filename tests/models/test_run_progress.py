"""What a run says of its time, before it ends."""

import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.progress import Progress

from tests.printed.pasted import paste
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, measure_shards
from wdsflow.cli import filter as cli
from wdsflow.cli.runs.display import _BarDisplay
from wdsflow.cli.runs.forecast import RunForecast
from wdsflow.cli.runs.live_counts import LiveCounts
from wdsflow.cli.runs.progress_lines import ProgressLines
from wdsflow.cli.shared.command_line import command_of
from wdsflow.cli.shared.typed import Typed
from wdsflow.engines.base import Engine
from wdsflow.engines.mark import TaskProgress
from wdsflow.filtering.run_progress import RunSoFar, RunWatch
from wdsflow.filtering.shard.shard_task import ShardTask
from wdsflow.records.run_folder import Layout
from wdsflow.shards.shard import Shard

# Processes that it starts import PyTorch.


def captioned(path: Path, samples: int) -> str:
    write_tar(path, [(f"{number:05d}.txt", b"a caption") for number in range(samples)])
    return str(path)


def watched(url: str, out: Path, score: str, jobs: int) -> list[RunSoFar]:
    seen: list[RunSoFar] = []
    options = RunOptions(jobs=jobs, device="cpu", watch=seen.append)
    measure_shards(url, out, Recipe(scores=(score,)), options)
    return seen


@pytest.mark.parametrize("jobs", [0, 1])
def test_samples_of_a_shard_are_counted_while_it_is_scored(tmp_path: Path, jobs: int) -> None:
    url = captioned(tmp_path / "0.tar", 30)
    seen = watched(url, tmp_path / "out", "slow_text(seconds=0.04)", jobs)
    within = [each for each in seen if 0 < each.samples < 30]
    assert within
    assert all(each.done == 0 and each.shards == 1 and each.by == "bytes" for each in within)
    assert within == sorted(within, key=lambda each: (each.samples, each.share))
    for each in within:
        assert each.share == pytest.approx(each.samples / 30, abs=0.4)
        assert 0.03 <= each.measured / each.samples <= 0.4
        assert each.devices == ()


def test_the_first_samples_of_a_model_on_a_cpu_are_known_long_before_a_window_is_full(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    url = captioned(tmp_path / "0.tar", 30)
    seen = watched(url, tmp_path / "out", "slow_batch(seconds=0.1)", 1)
    counts = sorted({each.samples for each in seen})
    assert counts[:1] == [0]
    assert 0 < counts[1] <= 7
    assert len(counts) >= 3
    assert {each.devices for each in seen} == {("cpu",)}


def begun(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "wdsflow", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def lines_until(process: "subprocess.Popen[str]", wanted: str) -> list[str]:
    """Read standard error up to a line that contains ``wanted``, then interrupt the run.

    Waits for a minute at most.
    """
    lines: list[str] = []
    assert process.stderr is not None
    limit = threading.Timer(60, process.send_signal, [signal.SIGINT])
    limit.start()
    for line in process.stderr:
        lines.append(line)
        if wanted in line:
            break
    limit.cancel()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    return lines


def test_a_run_of_hours_says_so_after_seconds_and_how_to_try_a_part(tmp_path: Path) -> None:
    captioned(tmp_path / "0.tar", 14)
    captioned(tmp_path / "1.tar", 20_000)
    out = str(tmp_path / "out")
    process = begun(
        "measure", str(tmp_path), "-o", out, "--scores", "slow_text(seconds=0.3)", "--jobs", "1"
    )
    lines = lines_until(process, "to try one shard: ")
    text = "".join(lines)
    took = r"\d\d? samples took \d+\.\d s \(\d\.\d\d? s a sample\), 0\.\d+% of the bytes"
    assert re.search(rf"^wdsflow: about \d+ (h \d+ )?min for 2 shards: {took}$", text, re.MULTILINE)
    assert "  Ctrl-C keeps finished shards, and the same command resumes\n" in text
    command = lines[-1].partition("to try one shard: ")[2].strip()
    done = paste(command, tmp_path)
    assert done.status == 0, done.errors
    assert "14  samples in 1 shard" in done.out


@pytest.mark.deep
def test_a_single_shard_of_hours_can_be_made_smaller(tmp_path: Path) -> None:
    url = captioned(tmp_path / "0.tar", 20_000)
    words = ("--scores", "slow_text(seconds=0.3)", "--jobs", "1")
    process = begun("measure", url, "-o", str(tmp_path / "out"), *words)
    lines = lines_until(process, "to make smaller ones first: ")
    assert "Ctrl-C" not in "".join(lines)
    done = paste(lines[-1].partition("first: ")[2].strip(), tmp_path)
    assert done.status == 0, done.errors
    assert len(list((tmp_path / "smaller").glob("*.tar"))) == 16


def typed(name: str, *words: str) -> Typed:
    """Return a typed command that is not run."""
    found: list[Typed] = []
    command = command_of(name, cli.filter, lambda typed, _: found.append(typed))
    command.main(list(words), prog_name=name, standalone_mode=False)
    return found[0]


SO_FAR = RunSoFar(
    "measuring", 8, 2, 100, 0.25, "bytes", 31.0, 30.0, 30.0, ("cpu",), Shard.file("0.tar")
)


def test_what_is_not_measured_yet_is_not_known() -> None:
    for few in (
        {"samples": 9, "measured": 9.9},
        {"samples": 1000, "measured": 2.9},
        {"samples": 0},
        {"share": 0.0},
    ):
        assert replace(SO_FAR, **few).total is replace(SO_FAR, **few).left is None
    assert SO_FAR.total == 120
    assert SO_FAR.left == 90
    assert replace(SO_FAR, samples=1, measured=10.0, share=0.5).total == 20


def test_without_a_terminal_there_is_a_line_now_and_then() -> None:
    lines = ProgressLines(here=False)
    times = []
    for second in range(3000):
        found = list(lines.lines(replace(SO_FAR, elapsed=float(second))))
        times += [second] * len(found)
    assert times == [30, 60, 120, 240, 480, 1080, 1680, 2280, 2880]
    (line,) = ProgressLines(here=False).lines(SO_FAR)
    assert (
        line == "measuring for 31 s: 100 samples, 2 of 8 shards done, 3 samples/s, about 90 s left"
    )
    (line,) = ProgressLines(here=True).lines(replace(SO_FAR, samples=0))
    assert re.fullmatch(
        r"measuring for 31 s: 0 samples, 2 of 8 shards done, [\d.]+ [MG]iB of memory", line
    )


def test_a_bar_counts_what_is_done_what_is_left_and_why_samples_are_lost() -> None:
    counts = LiveCounts(here=False, writes=True)
    counts.add(
        SimpleNamespace(samples=50, kept=20, dropped={"width > 1": 25}, quarantined={"cut": 5})
    )
    counts.add(SimpleNamespace(samples=10, kept=8, dropped={"width > 1": 1, "a\nb": 1, "c": 1}))
    counts.update(SO_FAR)
    left = "100 samples, 3 samples/s, 90 s left"
    assert counts.text() == f"{left}, kept 28, -26 width > 1, -5 cut, -1 a\\nb"
    counts.update(replace(SO_FAR, samples=0))
    finished = r"[\d.,]+ samples/s, kept 28, -26 width > 1, -5 cut, -1 a\\nb"
    assert re.fullmatch(finished, counts.text())


def test_a_long_run_is_announced_once_and_again_only_if_it_turns_out_to_be_very_long() -> None:
    forecast = RunForecast(typed("filter", "in", "--where", "width > 1", "--dry-run"))

    def said(total: float) -> list[str]:
        lines = list(forecast.lines(replace(SO_FAR, measured=total * SO_FAR.share, samples=200)))
        return [line.partition(":")[0].partition(" for ")[0].strip() for line in lines]

    assert said(599) == []
    assert said(700) == ["about 12 min"]
    assert said(900) == []
    assert said(3600) == ["about 60 min", "to try one shard"]
    assert said(9000) == []


def test_a_very_long_run_is_announced_with_a_way_to_do_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = Shard.url("https://user:word@host/0.tar")
    keeps = "  Ctrl-C keeps finished shards, and the same command resumes"
    single = "  only whole shards are kept when it is interrupted, and this is a single one"

    def advice(*words: str, **facts: Any) -> list[str]:
        forecast = RunForecast(typed("filter", "in", "--where", "width > 1", *words))
        so_far = replace(SO_FAR, measured=3600 * SO_FAR.share, samples=200, **facts)
        first, *advised = forecast.lines(so_far)
        assert first.startswith("about 60 min for ")
        return advised

    trial = "wdsflow filter 0.tar -o trial --where 'width > 1'"
    assert advice("-o", "out") == [keeps, f"  to try one shard: {trial}"]
    assert advice("-o", "out", shards=1) == [
        single,
        "  to make smaller ones first: wdsflow reshard 0.tar -o smaller --shards 16",
    ]
    assert advice("-o", "out", first=secret) == [keeps]
    assert advice("-o", "out", first=secret, shards=1) == [single]


def test_shards_of_which_only_the_end_is_seen_count_from_the_begin(tmp_path: Path) -> None:
    """As on a cluster, and where existing scores are used."""
    tasks = [
        ShardTask(n, Shard.file(f"{tmp_path}/{n}.tar"), f"{n}.tar", Recipe(), Layout(tmp_path))
        for n in range(4)
    ]
    for task in tasks:
        Path(task.url).write_bytes(bytes(1000))
    engine = Unseen()
    for unseen in ([], None):
        engine.seen = unseen
        watch = RunWatch(engine, tasks, "writing", ())
        assert watch.progress().samples == 0
        time.sleep(0.2)
        watch.add(tasks[0], 0)
        assert watch.progress().share == 0.25
        watch.add(tasks[1], 50)
        so_far = watch.progress()
        assert (so_far.samples, so_far.share, so_far.done, so_far.shards) == (50, 0.5, 2, 4)
        assert 0.2 <= so_far.measured <= so_far.scoring <= so_far.elapsed < 5


class Unseen(Engine[ShardTask]):
    """An engine of which only finished tasks are known."""

    most_under_way = 1
    seen: list[tuple[ShardTask, TaskProgress]] | None = None

    def submit(self, task: ShardTask) -> None:
        """Take nothing."""

    def next(self) -> tuple[ShardTask, object]:
        """Have nothing."""
        raise NotImplementedError

    def under_way(self) -> list[tuple[ShardTask, TaskProgress]] | None:
        """Return what is set."""
        return self.seen

    def close(self) -> None:
        """Hold nothing."""


def test_a_bar_shows_the_samples_of_shards_that_are_not_finished(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bars = Progress(disable=True)
    display = _BarDisplay(bars, typed("filter", "in", "--where", "width > 1"), here=False)
    display.begin(8, "writing")

    display.watch(replace(SO_FAR, scoring=900.0, measured=900.0, samples=2_000))

    (task,) = bars.tasks
    assert (task.total, task.completed) == (8, 2)
    assert task.description == "2,000 samples, 2 samples/s, 45 min left, kept 0"
    assert capsys.readouterr().err.startswith("wdsflow: about 60 min for 8 shards: ")
