"""Training commands that read other data than they seem to.

Validation data is missing, or OpenCLIP does not expand a pattern.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.filtering.commands import pasted, run
from tests.validate.pipeline.small_set import write
from wdsflow.cli.main import main

TRAINING = ["--train-num-samples", "24", "--batch-size", "4", "--workers", "1", "--warmup", "0"]


def test_a_command_that_crashes_when_it_evaluates_does_not_train(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = write(tmp_path / "train.tar", 12)
    held_out = write(tmp_path / "val.tar", 8, missing=1)
    words = ["validate", "--level", "names", "--", "--train-data", train, "--val-data", held_out]
    words += ["--train-num-samples", "12", "--batch-size", "4", "--workers", "1", "--warmup", "0"]

    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "CRASHES" in text
    assert "none of the 8 samples of --val-data is usable" in text
    assert "TRAINS" not in text


def test_a_part_of_the_validation_data_that_is_missing_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train", "val-0", "val-1"):
        write(tmp_path / f"{name}.tar", 24)
    words = ["--train-data", "train.tar", "--val-data", "val-{0..2}.tar", *TRAINING]
    done = run("validate", "--level", "names", "--", *words)
    text = " ".join(done.out.split())
    assert done.status == 0
    assert "warning P317" in text
    assert "1 of 3 shards of --val-data cannot be read" in text
    assert "the figures are those of the rest, silently" in text


@pytest.mark.parametrize("pattern", ["in/*.tar", "in", "@list.txt"])
def test_a_pattern_that_openclip_does_not_expand_is_answered_with_braces_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    """No other setting helps: with any of them training hangs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    paths = [f"in/{number}.tar" for number in range(3)]
    for number, path in enumerate(paths):
        write(tmp_path / path, 8, start=8 * number)
    (tmp_path / "list.txt").write_text("\n".join(paths))
    words = [*TRAINING, "--dataset-type", "webdataset"]
    done = run("validate", "--level", "names", "--", "--train-data", pattern, *words)
    assert done.status == 1
    assert "STALLS" in done.out
    assert "error   P319" in done.out
    (command,) = re.findall(r"^ +(wdsflow validate .*)$", done.out, re.MULTILINE)
    typed = shlex.split(command)
    data = typed.index("--train-data")
    assert typed[data + 1] == "in/{0..2}.tar"
    assert [*typed[typed.index("--") + 1 : data], *typed[data + 2 :]] == words
    again = pasted(command)
    assert (again.status, "P319" in again.out) == (0, False), again
