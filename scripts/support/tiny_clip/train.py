"""Runs `wdsflow train` in a folder of shards, and prints its progress."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from .recipe import CONFIG, CONFIG_FILE, MODEL, WEIGHTS_FILE, Recipe

STEP = re.compile(r"Train Epoch: (\d+) \[ *(\d+)/(\d+).* Loss: ([\d.]+)")
# Two on any machine: more do not help so small a model, and another number sums in another order.
# Where other programs run next to it, a thread that spins while it waits for another one takes the
# core that the other one needs.
THREADS = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}


class TrainingError(Exception):
    """`wdsflow train` ended with another status than 0."""


def train(folder: Path, recipe: Recipe) -> None:
    """Train on ``folder``/train; leave configuration and weights in ``folder``/model.

    Raises TrainingError with the end of what the run has said.
    """
    (folder / MODEL).mkdir()
    (folder / MODEL / CONFIG_FILE).write_text(json.dumps(CONFIG, indent=2) + "\n")
    run = [sys.executable, "-m", "wdsflow", "train", "--", *recipe.arguments]
    print(f"$ wdsflow train -- {shlex.join(recipe.arguments)}", flush=True)
    with (folder / "train.log").open("w+") as log:
        with subprocess.Popen(
            run,
            cwd=folder,
            env=os.environ | THREADS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    log.write(line)
                    _print_loss(line, recipe.epochs)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            log.seek(0)
            tail = "".join(log.readlines()[-30:])
            message = f"wdsflow train ended with status {process.returncode}:\n{tail}"
            raise TrainingError(message)
    _keep_weights(folder / recipe.checkpoint, folder / MODEL / WEIGHTS_FILE)


def _print_loss(line: str, epochs: int) -> None:
    """Print the loss if a line of the log is that of the end of an epoch."""
    match = STEP.search(line)
    if match is None:
        return
    epoch, seen, samples, loss = match.groups()
    if seen == samples:
        print(f"  epoch {int(epoch) + 1} of {epochs}: loss {float(loss):.2f}", flush=True)


def _keep_weights(checkpoint: Path, path: Path) -> None:
    """Take the weights out of a checkpoint, without the optimizer's state."""
    import torch
    from safetensors.torch import save_file

    save_file(torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"], path)
