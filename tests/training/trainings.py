"""Small trainings for the tests of the launcher."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests.cli import shards

BATCHES = 8  # of one rank, an epoch
_MODEL = {
    "embed_dim": 8,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 16, "head_width": 8, "patch_size": 8},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 8, "heads": 1, "layers": 1},
}


def write_data(folder: Path) -> str:
    """Write a model's configuration and 4 shards of 16 samples; return their pattern."""
    (folder / "model").mkdir()
    (folder / "model" / "open_clip_config.json").write_text(json.dumps({"model_cfg": _MODEL}))
    return shards.with_txt(folder, 4, 16)


def command(folder: Path, name: str, *more: str) -> list[str]:
    """A training of two epochs of eight batches; patches are dropped by the global generator."""
    words = {
        "train-data": f"{folder}/{{0000..0003}}.tar",
        "train-num-samples": 64,
        "model": f"local-dir:{folder}/model",
        "batch-size": 8,
        "workers": 2,
        "epochs": 2,
        "warmup": 3,
        "lr": 0.01,
        "device": "cpu",
        "precision": "fp32",
        "force-patch-dropout": 0.5,
        "logs": f"{folder}/logs",
        "name": name,
    }
    return [word for flag, value in words.items() for word in (f"--{flag}", str(value))] + list(more)


def drive(scenarios: list[dict[str, Any]]) -> list[str]:
    """Run trainings as drive.py says, in forks of a process that stays for the next; return the exit statuses of each."""
    driver = _driver()
    assert driver.stdin is not None
    assert driver.stdout is not None
    driver.stdin.write(json.dumps(scenarios) + "\n")
    driver.stdin.flush()
    return [driver.stdout.readline().rstrip("\n") for _ in scenarios]


@cache
def _driver() -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    run = [sys.executable, str(Path(__file__).with_name("drive.py"))]
    return subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def end_driver() -> None:
    """End the process that ``drive`` has started, if it has."""
    if _driver.cache_info().currsize:
        _driver().communicate()
        _driver.cache_clear()
