"""A real training that one sample of many ends."""

import pickle
import sys
from pathlib import Path

from tests.cli import shards
from tests.training import trainings


class Ends:
    """Kills the process that loads it, as a decoder with a bug in C might."""

    def __reduce__(self):
        import os

        return os._exit, (9,)


def write_shards(folder: Path, number: int, samples: int) -> str:
    """Write shards, all samples of which train but one; return its key."""
    trainings.write_data(folder)
    image, bad = shards.jpeg(), f"{number - 3:02d}{samples // 3:04d}"
    for shard in range(number):
        members: dict[str, bytes] = {}
        for sample in range(samples):
            key = f"{shard:02d}{sample:04d}"
            members |= {f"{key}.jpg": image, f"{key}.txt": b"a picture"}
            if key == bad:
                members[f"{key}.pickle"] = pickle.dumps(Ends())
        shards.write(folder / f"{shard:05d}.tar", members)
    return bad


def command(folder: Path) -> list[str]:
    """An epoch of OpenCLIP's own training over all samples."""
    words = trainings.command(folder, "once")
    given = {"--train-data": "{shards}", "--train-num-samples": "{samples}", "--logs": "{run}", "--workers": "1"}
    given |= {"--epochs": "1", "--batch-size": "500"}
    for flag, value in given.items():
        words[words.index(flag) + 1] = value
    return [sys.executable, "-m", "open_clip_train.main", *words]
