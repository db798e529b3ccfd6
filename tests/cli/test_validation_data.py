"""A training command whose validation data ends it."""

from pathlib import Path

import pytest

from tests.validate.pipeline.small_set import write
from wdsflow.cli.main import main


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
