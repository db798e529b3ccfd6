"""The output record of a small command that keeps every second sample.

Tests resuming, options, counts, and the files that remain after each kind of end.
"""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest

from wdsflow.records.counts import Counts
from wdsflow.records.line import NewShard
from wdsflow.records.output_record import OutputRecord
from wdsflow.records.read_status import statuses
from wdsflow.records.report import OutputsReport
from wdsflow.records.run_outputs import run_outputs
from wdsflow.repair import OtherOptions
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError


@dataclass
class Thinned(NewShard):
    """The outcome of one input."""

    samples: int = 0
    written: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def counted(self) -> int:
        """Samples of the output."""
        return self.written

    def sums(self) -> Iterable[Counts]:
        """Yield the counts of samples."""
        yield Counts("samples", self.samples, self.written, self.left_out)


class Job(NamedTuple):
    """An input, and its output."""

    url: str
    target: Path


def thin(job: Job, line: Thinned, _: Event) -> None:
    lines = Path(job.url).read_text().split()
    line.samples = len(lines)
    if lines and lines[0] == "<html>":
        raise SourceError("not-tar", "not a tar")
    line.written = len(lines[::2])
    line.left_out = {"thinned": line.samples - line.written}
    job.target.write_text("\n".join(lines[::2]))
    line.output = str(job.target)


def made_from(job: Job) -> dict[str, object]:
    try:
        return {"of": Path(job.url).read_text()}
    except OSError as error:
        raise SourceError("missing", str(error)) from None


def thin_all(
    folder: Path, out: Path, options: dict[str, object], write=thin, **how: bool
) -> OutputsReport[Thinned]:
    urls = [Shard.file(str(path)) for path in sorted(folder.iterdir())]
    work = [Job(url, out / f"{Path(url).stem}.tar") for url in urls]
    report = OutputsReport[Thinned]()
    with OutputRecord(out, "thin", "thinned", Thinned, {"of": "the input changed"}) as record:
        record.begin(options, [job.target.name for job in work], inputs=urls, **how)
        report.shards = run_outputs([(record, job) for job in work], write, made_from, report)
        record.finish()
    return report


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three inputs of 4, 5 and 6 samples."""
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text(" ".join("abcdef"[: 4 + number]))
    return tmp_path / "in"


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_second_run_keeps_what_is_done_and_leaves_the_same_bytes(source: Path, tmp_path: Path):
    report = thin_all(source, tmp_path / "out", {"--every": 2})
    whole = files(tmp_path / "out")
    assert (report.resumed, report.total("written"), report.merged("left_out")) == (
        0,
        8,
        {"thinned": 7},
    )
    assert report.total("left_out") == 7
    assert whole.keys() == {
        "0.tar",
        "1.tar",
        "2.tar",
        "sizes.json",
        "__len__",
        ".wdsflow/thin.json",
        ".wdsflow/thin.jsonl",
    }
    assert json.loads(whole["sizes.json"]) == {"0.tar": 2, "1.tar": 3, "2.tar": 3}
    assert thin_all(source, tmp_path / "out", {"--every": 2}).resumed == 3
    assert files(tmp_path / "out") == whole
    (tmp_path / "out/1.tar").unlink()
    (source / "2.txt").write_text("a b c d e f")  # as it was
    (source / "0.txt").write_text("x y z u")
    report = thin_all(source, tmp_path / "out", {"--every": 2})
    assert report.resumed == 1
    assert [line.partition(": ")[2] for line in report.changed] == [
        "the input changed",
        f"{tmp_path}/out/1.tar is missing",
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace('"written":3', '"written":2'),  # its counts do not add up
        # They do, but are negative.
        lambda line: re.sub(r'"(samples|written)":3', r'"\1":-3', line),
        lambda line: line[:-9],  # cut by a full disk
        lambda line: line.replace('"url"', '"later"'),  # of another version
    ],
)
def test_a_line_that_cannot_be_right_is_not_believed(source: Path, tmp_path: Path, change):
    thin_all(source, tmp_path / "out", {})
    whole = files(tmp_path / "out")
    lines = tmp_path / "out/.wdsflow/thin.jsonl"
    first, second, third = lines.read_text().splitlines()
    lines.write_text(f"{first}\n{second}\n{change(third)}")
    assert thin_all(source, tmp_path / "out", {}).resumed == 2
    assert files(tmp_path / "out") == whole


def test_other_options_are_refused_unless_the_earlier_run_finished_nothing(
    source: Path, tmp_path: Path
):
    out = tmp_path / "out"
    thin_all(source, out, {"--every": 2})
    with pytest.raises(
        OtherOptions, match="holds shards thinned with other options: --every was 2, now it is 3"
    ):
        thin_all(source, out, {"--every": 3})
    for path in out.glob("*.tar"):
        path.unlink()
    assert thin_all(source, out, {"--every": 3}).resumed == 0
    assert json.loads((out / ".wdsflow/thin.json").read_text())["options"] == {"--every": 3}


def test_a_damaged_file_of_options_is_named_with_what_to_do(source: Path, tmp_path: Path):
    thin_all(source, tmp_path / "out", {})
    (tmp_path / "out/.wdsflow/thin.json").write_text("{")
    with pytest.raises(
        FileExistsError,
        match=r"thin\.json is damaged.* remove .*out, or choose another folder with -o",
    ):
        thin_all(source, tmp_path / "out", {})


def test_a_restart_removes_its_shards_and_their_counts_and_keeps_those_of_others(
    source: Path, tmp_path: Path
):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.tar").write_text("mine")
    (out / "sizes.json").write_text('{"mine.tar": 7}')
    thin_all(source, out, {})
    assert json.loads((out / "sizes.json").read_text()) == {
        "0.tar": 2,
        "1.tar": 3,
        "2.tar": 3,
        "mine.tar": 7,
    }
    (source / "1.txt").unlink()
    thin_all(source, out, {"--every": 3}, restart=True)
    assert json.loads((out / "sizes.json").read_text()) == {"0.tar": 2, "2.tar": 3, "mine.tar": 7}
    assert {path.name for path in out.glob("*.tar")} == {"0.tar", "2.tar", "mine.tar"}


def test_a_restart_that_fails_leaves_no_counts_of_shards_that_it_removed(
    source: Path, tmp_path: Path, monkeypatch
):
    thin_all(source, tmp_path / "out", {})
    with pytest.raises(ZeroDivisionError):
        thin_all(source, tmp_path / "out", {}, lambda *_: 1 / 0, restart=True)
    assert files(tmp_path / "out") == {}


def test_a_restart_is_refused_before_anything_is_removed(source: Path, tmp_path: Path):
    out = tmp_path / "out"
    thin_all(source, out, {})
    (source / "9.txt").write_text("a b")
    (out / "9.tar").write_text("mine")
    before = files(out)
    with pytest.raises(FileExistsError, match=r"9\.tar exists already, and no thin wrote it"):
        thin_all(source, out, {}, restart=True)
    assert files(out) == before


def test_an_input_that_is_replaced_while_it_is_read_is_lost_and_written_again_by_the_next_run(
    source: Path, tmp_path: Path
):
    def slow(job: Job, line: Thinned, stop: Event) -> None:
        thin(job, line, stop)
        if job.url.endswith("1.txt"):
            Path(job.url).write_text("new")

    report = thin_all(source, tmp_path / "out", {}, slow)
    assert [line.lost for line in report.shards] == [[], ["it changed while it was read"], []]
    assert set(json.loads((tmp_path / "out/sizes.json").read_text())) == {"0.tar", "2.tar"}
    assert not (tmp_path / "out/1.tar").exists()
    assert thin_all(source, tmp_path / "out", {}).resumed == 2
    assert (tmp_path / "out/1.tar").read_text() == "new"


def test_the_output_of_an_input_that_is_no_shard_any_more_is_removed(source: Path, tmp_path: Path):
    thin_all(source, tmp_path / "out", {})
    (source / "1.txt").write_text("<html> moved")
    report = thin_all(source, tmp_path / "out", {})
    assert ([line.lost for line in report.shards], report.kept) == ([[], ["not a tar"], []], [])
    assert not (tmp_path / "out/1.tar").exists()
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {"0.tar": 2, "2.tar": 3}
    assert len((tmp_path / "out/.wdsflow/thin.jsonl").read_text().splitlines()) == 2


def test_the_output_of_an_input_that_is_out_of_reach_is_kept_and_named(
    source: Path, tmp_path: Path
):
    thin_all(source, tmp_path / "out", {})
    (source / "1.txt").unlink()
    (source / "1.txt").symlink_to("nowhere")
    report = thin_all(source, tmp_path / "out", {})
    assert [bool(line.lost) for line in report.shards] == [False, True, False]
    assert list(report.again_lines("thinned")) == [
        f"kept from an earlier run: the output of {source}/1.txt, which cannot be read now"
    ]
    assert (tmp_path / "out/1.tar").exists()
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {
        "0.tar": 2,
        "1.tar": 3,
        "2.tar": 3,
    }


def test_options_that_are_zero_are_told_from_those_not_given(source: Path, tmp_path: Path):
    thin_all(source, tmp_path / "out", {"--seed": 0, "--name": None})
    with pytest.raises(
        OtherOptions, match="--seed was 0, now it is 3; --name was not given, now it is a"
    ):
        thin_all(source, tmp_path / "out", {"--seed": 3, "--name": "a"})


def test_a_line_that_the_disk_did_not_take_is_taken_back(source: Path, tmp_path: Path, monkeypatch):
    real, left = os.write, [1]

    def full(file: int, data: bytes) -> int:
        left[0] -= 1
        return real(file, data if left[0] >= 0 else data[:20])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left on device"):
        thin_all(source, tmp_path / "out", {})
    monkeypatch.undo()
    (line,) = (tmp_path / "out/.wdsflow/thin.jsonl").read_text().splitlines()
    # Outputs that are done by then are noted in any order.
    assert json.loads(line)["name"] in {"0.tar", "1.tar", "2.tar"}
    assert not (tmp_path / "out/sizes.json").exists()
    assert thin_all(source, tmp_path / "out", {}).resumed == 1


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (MemoryError(), "MemoryError"),
        (OSError(28, "No space left"), "[Errno 28] No space left"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_what_ended_a_run_is_kept_in_its_folder(
    source: Path, tmp_path: Path, error: BaseException, why: str
):
    def fail_at_the_second(job: Job, line: Thinned, stop: Event) -> None:
        if job.url.endswith("1.txt"):
            raise error
        thin(job, line, stop)

    with pytest.raises(type(error)):
        thin_all(source, tmp_path / "out", {}, fail_at_the_second)

    (status,) = statuses(str(tmp_path / "out"))
    assert [part.why for part in status.slices] == [why]


def test_counts_that_do_not_add_up_end_a_run_with_both_sides():
    with pytest.raises(
        RuntimeError, match="samples do not add up: samples: 5 in = 3 out \\+ 1 left out"
    ):
        Thinned("a", samples=5, written=3, left_out={"thinned": 1}).check()
