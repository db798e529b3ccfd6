import importlib.util
import subprocess
import sys

import pytest

from tests.cli import shards
from wdsflow.cli.main import _split, main

needs_openclip = pytest.mark.skipif(importlib.util.find_spec("open_clip_train") is None, reason="needs OpenCLIP")


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def test_help_shows_how_to_start_several_ranks(capsys):
    assert run("train", "--help") == 0
    shown = capsys.readouterr().out
    assert "torchrun --nproc_per_node 8 -m wdsflow train --" in shown
    assert "srun --ntasks-per-node 8 wdsflow train --" in shown
    assert "Exit status" in shown


def test_everything_behind_the_dashes_belongs_to_openclip():
    assert _split(["train", "--k", "3", "--", "--help", "--", "--k"]) == (
        ["train", "--k", "3"],
        ["--help", "--", "--k"],
    )


def test_without_a_training_command_it_says_how(capsys):
    assert run("train") == 2
    assert "wdsflow train -- --train-data" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--caption", "json:"],
        ["--memory", "a lot"],
        ["--stall-after", "0"],
        ["--decode", "slow"],
        ["--threads", "0"],
        ["--metrics", "metrics.txt"],
        ["--image", ";"],
    ],
)
def test_wrong_use_is_status_2_before_anything_is_read(capsys, words):
    assert run("train", *words, "--", "--train-data", "nowhere.tar") == 2
    assert "Traceback" not in capsys.readouterr().err


@needs_openclip
def test_openclip_explains_its_own_arguments(capsys):
    assert run("train", "--", "--train-dato", "x.tar") == 2
    assert "unrecognized arguments: --train-dato" in capsys.readouterr().err


def test_without_openclip_it_names_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run("train", "--", "--train-data", "x.tar") == 2
    shown = capsys.readouterr().err
    assert 'pip install "open_clip_torch[training]"' in shown
    assert len(shown.splitlines()) == 1


@needs_openclip
def test_a_refusal_is_status_1_and_goes_to_standard_error(tmp_path, capsys):
    assert run("train", "--", "--train-data", shards.with_json(tmp_path)) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "wdsflow train --caption json:caption -- ..." in shown.err


@needs_openclip
def test_a_shard_that_gives_nothing_ends_the_look_at_shards():
    words = ["--stall-after", "1", "--", "--train-data", "pipe:sleep 600", "--workers", "1"]
    program = [sys.executable, "-m", "wdsflow", "train", *words]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    what, fix, blind, longer = done.stderr.splitlines()
    assert what == "wdsflow: preflight: 0 of 1 shards were read, then nothing came for 1 s"
    assert fix == "To fix it:"
    assert "wdsflow train --stall-after 1 --no-preflight -- " in blind
    assert "wdsflow train --stall-after 10 -- " in longer


@needs_openclip
@pytest.mark.parametrize("variable", ["RANK", "SLURM_PROCID"])
def test_only_the_first_rank_looks_at_the_shards(tmp_path, capsys, monkeypatch, variable):
    trained = []

    def launch(*given, **named):
        trained.append((given, named))
        return 0

    monkeypatch.setattr("wdsflow.training.launch.launch", launch)
    monkeypatch.setenv(variable, "1")
    data = shards.with_json(tmp_path)
    assert run("train", "--checkpoint-every", "7", "--", "--train-data", data) == 0
    (argv, options), named = trained[0]
    assert argv == ["--train-data", data]
    assert options.decode == "fast"
    assert named == {"checkpoint_every": 7, "refused": False}
    assert "preflight" not in capsys.readouterr().err
