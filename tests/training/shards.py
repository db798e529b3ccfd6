"""Small shards to train on, and OpenCLIP's arguments for them."""

import io
import tarfile
from argparse import Namespace
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image


@cache
def jpeg(number: int, size: tuple[int, int] = (40, 32)) -> bytes:
    stream = io.BytesIO()
    colour = (number * 37 % 256, number * 91 % 256, number * 53 % 256)
    Image.new("RGB", size, colour).save(stream, "jpeg")
    return stream.getvalue()


def write_tar(path: Path, members: list[tuple[str, bytes]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def samples(shard: int, count: int) -> list[tuple[str, bytes]]:
    """Members of samples whose captions say where they are: ``shard/number``."""
    found = []
    for number in range(count):
        key = f"{shard:03d}{number:04d}"
        found += [
            (f"{key}.jpg", jpeg(shard * 1000 + number)),
            (f"{key}.txt", f"{shard}/{number}".encode()),
        ]
    return found


def write_shards(folder: Path, counts: list[int]) -> str:
    """Write shards of so many samples; return the pattern for all."""
    for shard, count in enumerate(counts):
        write_tar(folder / f"{shard:04d}.tar", samples(shard, count))
    return f"{folder}/{{0000..{len(counts) - 1:04d}}}.tar"


def arguments(**given: Any) -> Namespace:
    """Return open_clip_train's arguments, by its own parser."""
    from open_clip_train.params import parse_args

    args: Namespace = parse_args([])
    args.world_size, args.rank, args.distributed = 1, 0, False
    for name, value in given.items():
        setattr(args, name, value)
    return args


def as_text(text: str) -> list[str]:
    """A tokenizer that leaves captions as they are."""
    return [text]


def plain(image: Any) -> Any:
    """A transform of which the feed knows nothing."""
    import numpy as np
    import torch

    return torch.from_numpy(np.array(image.resize((8, 8)), np.float32).transpose(2, 0, 1))


def texts(batch: Any) -> list[str]:
    """The captions of a batch, whatever OpenCLIP's version calls them."""
    return list(batch["text"] if isinstance(batch, dict) else batch[1])
