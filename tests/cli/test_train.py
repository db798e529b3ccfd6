import contextlib
import importlib.util
import os
import shlex
import subprocess
import sys

import pytest

from tests.cli import shards
from wdsflow.cli.main import _split_at_dashes, main
from wdsflow.text.install import install_extras

needs_openclip = pytest.mark.skipif(
    importlib.util.find_spec("open_clip_train") is None, reason="needs OpenCLIP"
)


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def test_help_shows_how_to_start_several_ranks(capsys):
    assert run("train", "--help") == 0
    shown = capsys.readouterr().out
    assert "torchrun --nproc_per_node 8 -m wdsflow train --" in shown
    assert "srun --ntasks-per-node 8" in shown
    assert "Exit status" in shown


def test_everything_behind_the_dashes_belongs_to_openclip():
    assert _split_at_dashes(["train", "--k", "3", "--", "--help", "--", "--k"]) == (
        ["train", "--k", "3"],
        ["--help", "--", "--k"],
    )


def test_without_a_training_command_it_says_how(capsys):
    assert run("train") == 2
    assert capsys.readouterr().err.endswith("all options: wdsflow train --help\n")


def test_a_cache_is_a_local_folder_and_a_size(capsys):
    rest = ("--", "--train-data", "nowhere.tar")
    for words, message, fix in (
        (("--cache", "kept"), "--cache needs --cache-size", "--cache-size 500GiB"),
        (("--cache-size", "5GB"), "--cache-size needs --cache", "--cache /nvme/wdsflow"),
        (("--cache", "s3://a/b", "--cache-size", "5GB"), "s3://a/b is not a local folder", ""),
    ):
        assert run("train", *words, *rest) == 2
        shown = capsys.readouterr().err
        assert message in shown
        assert fix in shown


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


@needs_openclip
@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("--train-data", "pictures.csv"), "pictures.csv is read as --dataset-type csv"),
        (
            ("--train-data", "{0..1}.tar", "--dataset-type", "csv"),
            "{0..1}.tar is read as --dataset-type csv",
        ),
        (("--dataset-type", "synthetic"), "data are made as --dataset-type synthetic"),
    ],
)
def test_data_that_are_no_shards_are_openclips_own_affair(capsys, words, kind):
    assert run("train", "--", *words) == 2
    told, hint = capsys.readouterr().err.splitlines()
    assert told == f"wdsflow: only WebDataset shards can be fed; {kind}"
    *_, command = hint.partition(": ")
    assert shlex.split(command) == ["python", "-m", "open_clip_train.main", *words]


def test_without_openclip_it_names_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run("train", "--", "--train-data", "x.tar") == 2
    shown = capsys.readouterr().err
    assert shown.endswith(f": {install_extras('openclip')}\n")
    assert len(shown.splitlines()) == 1


@needs_openclip
def test_a_refusal_is_status_1_and_goes_to_standard_error(tmp_path, capsys):
    assert run("train", "--", "--train-data", shards.with_json(tmp_path)) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert (
        f": wdsflow train --caption json:caption -- --train-data '{tmp_path}/{{0000..0001}}.tar'\n"
        in shown.err
    )


@needs_openclip
def test_a_model_that_openclip_does_not_have_is_refused_with_the_nearest(tmp_path, capsys):
    data = ["--", "--train-data", shards.with_txt(tmp_path), "--train-num-samples", "16"]
    for options in ([], ["--dry-run"], ["--no-preflight"]):
        assert run("train", *options, *data, "--model", "ViT-B-99") == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "--model ViT-B-99: open_clip has no such model; did you mean ViT-B-" in shown.err
        assert "Traceback" not in shown.err
    assert run("train", *data, "--model", "ViT-B-32", "--pretrained", "laion2b_s34b_b79") == 2
    assert "no weights of ViT-B-32; it has laion2b_s34b_b79k" in capsys.readouterr().err


@needs_openclip
def test_numbers_with_which_openclip_cannot_train_are_refused(capsys):
    assert run("train", "--", "--train-data", "0.tar", "--batch-size", "0") == 2
    assert "--batch-size must be at least 1, not 0" in capsys.readouterr().err


@needs_openclip
@pytest.mark.parametrize("words", [("--model", "ViT-B-32"), ("--imagenet-val", "pictures")])
def test_a_dry_run_needs_shards(capsys, words):
    assert run("train", "--dry-run", "--", *words) == 2
    told = "this command trains on no shards that wdsflow can check"
    assert capsys.readouterr() == ("", f"wdsflow: {told}\n")


@needs_openclip
def test_shards_that_cannot_be_read_are_status_2_in_one_line(tmp_path, capsys):
    assert run("train", "--", "--train-data", str(tmp_path / "0.tar")) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"preflight: nothing could be read: {tmp_path}/0.tar: no such file\n"


@pytest.mark.sample(1)
@needs_openclip
@pytest.mark.parametrize(("last", "status"), [(1, 0), (3, 1)])
def test_a_dry_run_fails_for_an_error_that_training_survives(tmp_path, capsys, last, status):
    shards.with_txt(tmp_path)
    data = f"{tmp_path}/{{0000..{last:04d}}}.tar"
    words = [
        "--train-data",
        data,
        "--train-num-samples",
        "16",
        "--workers",
        "1",
        "--batch-size",
        "8",
    ]
    assert run("train", "--dry-run", "--", *words) == status
    assert ("(exit status 1)" in capsys.readouterr().out) == bool(status)


@pytest.mark.sample(1)
@needs_openclip
@pytest.mark.parametrize(
    ("variables", "launcher"),
    [
        ({}, ""),
        (
            {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
            "torchrun --nproc_per_node 2 -m ",
        ),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, "srun --ntasks 2 "),
    ],
    ids=["alone", "torchrun", "srun"],
)
def test_what_is_advised_starts_as_many_ranks_as_there_are(
    tmp_path, capsys, monkeypatch, variables, launcher
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("wdsflow.training.launch.launch.launch", lambda *_, **__: 1)
    assert run("train", "--", "--train-data", shards.with_json(tmp_path)) == 1
    shown = capsys.readouterr().err
    assert f": {launcher}wdsflow train --caption json:caption -- " in shown
    assert (
        f": {'env RANK=0 WORLD_SIZE=2 ' if variables else ''}wdsflow train --dry-run -- " in shown
    )


@pytest.mark.deep
@needs_openclip
def test_a_shard_that_gives_nothing_ends_the_look_at_shards():
    words = [
        "--allow-pipe",
        "--stall-after",
        "1",
        "--",
        "--train-data",
        "pipe:sleep 600",
        "--workers",
        "1",
    ]
    program = [sys.executable, "-m", "wdsflow", "train", *words]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    what, fix, blind, longer = done.stderr.splitlines()
    assert what == "wdsflow: preflight: 0 of 1 shards were read, then nothing came for 1 s"
    assert fix == "To fix it:"
    assert "wdsflow train --no-preflight --stall-after 1 --allow-pipe -- " in blind
    assert "wdsflow train --stall-after 10 --allow-pipe -- " in longer


@needs_openclip
@pytest.mark.parametrize("variable", ["RANK", "SLURM_PROCID"])
def test_only_the_first_rank_looks_at_the_shards(tmp_path, capsys, monkeypatch, variable):
    trained = []

    def launch(*given, **named):
        trained.append((given, named))
        return 0

    monkeypatch.setattr("wdsflow.training.launch.launch.launch", launch)
    monkeypatch.setenv(variable, "1")
    data = shards.with_json(tmp_path)
    assert run("train", "--checkpoint-every", "7", "--", "--train-data", data) == 0
    (argv, options), named = trained[0]
    assert argv == ["--train-data", data]
    assert options.decode == "fast"
    assert named == {"checkpoint_every": 7, "refused": False, "headspace": False}
    assert "preflight" not in capsys.readouterr().err


@needs_openclip
def test_bars_of_two_passes_are_told_apart(tmp_path):
    """On a terminal, where bars are drawn."""
    data = shards.with_txt(tmp_path)
    ours, terminal = os.openpty()
    words = [
        "--train-data",
        data,
        "--val-data",
        data,
        "--train-num-samples",
        "8",
        "--workers",
        "1",
        "--batch-size",
        "4",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "wdsflow", "train", "--dry-run", "--", *words],
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while piece := os.read(ours, 1 << 16):
            shown += piece
    os.close(ours)
    assert process.wait() == 0
    assert b"reading training shards" in shown
    assert b"reading shards of --val-data" in shown
