"""Small trainings for the tests of the launcher."""

import json
from pathlib import Path

from tests.cli import shards

BATCHES = 8  # of one rank, an epoch
_MODEL = {
    "embed_dim": 8,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 16, "head_width": 8, "patch_size": 8},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 8, "heads": 1, "layers": 1},
}


def write_model(folder: Path) -> None:
    """Write a model's configuration."""
    (folder / "model").mkdir()
    (folder / "model" / "open_clip_config.json").write_text(json.dumps({"model_cfg": _MODEL}))


def write_data(folder: Path) -> str:
    """Write a model's configuration and 4 shards of 16 samples; return their pattern."""
    write_model(folder)
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
    return [word for flag, value in words.items() for word in (f"--{flag}", str(value))] + list(
        more
    )
