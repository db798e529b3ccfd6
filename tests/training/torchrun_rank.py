"""A rank of `wdsflow train` as torchrun starts it, on CPUs.

It writes what it was given, and its weights at the end.

torchrun --nproc_per_node 2 torchrun_rank.py FOLDER WORDS...
"""

import hashlib
import importlib
import json
import os
import sys
from pathlib import Path

from tests.training.drive import train_on_processors


class Noted:
    """A loader that notes the tokens of each sample, epoch by epoch."""

    def __init__(self, loader, epochs):
        self.loader, self.epochs = loader, epochs

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def __iter__(self):
        self.epochs.append([])
        for batch in self.loader:
            self.epochs[-1] += batch[1].tolist()
            yield batch


def main():
    folder, *words = sys.argv[1:]
    feed = importlib.import_module("wdsflow.training.openclip")
    get_data, models, epochs = feed.get_data, [], []
    train_on_processors(models)

    def noting(*arguments, **named):
        data = get_data(*arguments, **named)
        data["train"].dataloader = Noted(data["train"].dataloader, epochs)
        return data

    vars(feed)["get_data"] = noting
    try:
        importlib.import_module("wdsflow.cli.main").main(["train", *words])
    finally:
        weights = hashlib.sha256(
            b"".join(each.numpy().tobytes() for each in models[0].state_dict().values())
        )
        told = {"epochs": epochs, "weights": weights.hexdigest()}
        Path(folder, f"{os.environ['RANK']}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
