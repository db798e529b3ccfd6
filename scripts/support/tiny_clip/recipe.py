"""How the small CLIP is built and trained.

This file decides the weights: a change to it requires a new training.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[3] / ".tiny_clip"
# Folder in FOLDER, as OpenCLIP's `local-dir:` wants it.
MODEL = "model"
CONFIG_FILE, WEIGHTS_FILE = "open_clip_config.json", "open_clip_model.safetensors"
HELD_OUT, HUNDREDS = "held-out.tar", 10
BAR = 0.9
# On two free cores.
SECONDS = 180

# A ResNet, since a vision transformer of this size needs several times the pictures. 64 pixels
# leave it 2 x 2 places in the end. The tokenizer is OpenCLIP's own, with its whole vocabulary;
# captions have 22 tokens at most.
CONFIG: dict[str, Any] = {
    "model_cfg": {
        "embed_dim": 128,
        "vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "head_width": 32},
        "text_cfg": {
            "context_length": 24,
            "vocab_size": 49408,
            "width": 64,
            "heads": 2,
            "layers": 2,
        },
    },
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """The amount of data that is drawn, and the training.

    Samples, shards, workers and batches divide without a remainder.
    """

    seed: int = 0
    shards: int = 8
    # Drawn for training.
    samples: int = 16384
    epochs: int = 3
    batch: int = 128
    workers: int = 2
    rate: float = 2e-3
    # Steps.
    warmup: int = 50

    @property
    def arguments(self) -> list[str]:
        """Return the arguments after ``wdsflow train --``.

        The command runs in a folder that holds the shards and the model's configuration.
        """
        data = f"--train-data train/{{000..{self.shards - 1:03d}}}.tar --dataset-type webdataset"
        data += f" --train-num-samples {self.samples} --batch-size {self.batch} --workers {self.workers}"
        steps = f"--epochs {self.epochs} --lr {self.rate} --warmup {self.warmup} --wd 0.1 --grad-clip-norm 1"
        # OpenCLIP goes by the letters "vit" in the model's name.
        steps += " --beta1 0.9 --beta2 0.98 --eps 1e-6"
        run = f"--model local-dir:{MODEL} --device cpu --precision fp32 --seed {self.seed}"
        logs = "--logs logs --name run --save-frequency 0 --log-every-n-steps 16"
        return f"{data} {steps} {run} {logs}".split()

    @property
    def checkpoint(self) -> Path:
        """Where OpenCLIP leaves the last checkpoint, below the folder that it ran in."""
        return Path("logs", "run", "checkpoints", f"epoch_{self.epochs}.pt")

    @property
    def fingerprint(self) -> str:
        """Return a digest of everything that decides the weights.

        That is this recipe, and the code that draws scenes and writes captions.
        """
        here = Path(__file__).parent
        sources = [(here / name).read_text() for name in ("world.py", "captions.py", "shards.py")]
        parts = [
            json.dumps(CONFIG, sort_keys=True),
            *map(str, (self.shards, HUNDREDS)),
            *self.arguments,
            *sources,
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()
