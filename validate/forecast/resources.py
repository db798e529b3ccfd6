"""The memory that a training command needs on one machine, and the time to its first batch."""

import importlib.util
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.versions import OpenClip33
from wdsflow.scan.evidence import ShardEvidence

# Of the name of a model.
_NOT_LETTERS = re.compile(r"[-_.]")
# How --model names a folder with a config.
_LOCAL = "local-dir:"
# Batches that torch keeps ready for each worker.
_PREFETCH = 2


class _Speed(NamedTuple):
    """An assumption for the time to the first batch."""

    # Of one machine, bytes per second.
    storage: float
    # Of Pillow on one core, with resizing: seconds for one image, and pixels per second.
    image: float
    pixels: float


_FAST = _Speed(storage=2e9, image=0.0003, pixels=1e8)
_SLOW = _Speed(storage=1e8, image=0.0015, pixels=4e7)


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one machine. ``None``: not known at this level."""

    # Contents of all shuffle buffers at their fullest.
    shuffle_bytes: int | None
    # Memory free on this machine.
    available_bytes: int | None
    # For batches on their way to the training process.
    shm_bytes: int
    # Size of /dev/shm here.
    shm_total: int | None
    # Height, width.
    image_size: tuple[int, int]
    # False: 224 was assumed.
    image_size_known: bool
    # Samples that a worker reads before its first batch.
    raw_before_first: int
    # Seconds, fast and slow end.
    first_batch: tuple[float, float] | None


def estimate(
    arguments: Arguments,
    reader: OpenClip33,
    shards: Sequence[ShardEvidence],
    raw: Sequence[int],
    usable: int,
) -> Resources:
    """Return the resources that one machine needs.

    Args:
        arguments: the training command.
        reader: reader whose loader is used.
        shards: all shards.
        raw: samples in the shards of each worker, rank by rank; one entry, the sum, if shards are
            drawn.
        usable: number of samples in ``shards`` that reach a batch.
    """
    buffer = reader.buffers()
    total = sum(raw)
    # Of one machine.
    workers = arguments.local_world_size * max(1, arguments.workers)
    if arguments.dataset_resampled:
        buffered = buffer.samples * workers
        most_raw: float = float("inf")
    else:
        buffered = _most_buffered(raw, workers, buffer.samples, buffer.samples_initial)
        most_raw = max(raw, default=0)
    # Samples that contain as many usable ones as a batch.
    for_a_batch = arguments.batch_size * total / usable if usable else 0.0
    reads = int(min(most_raw, buffer.samples_initial + 2 * for_a_batch))

    shuffle_bytes: int | None = None
    first_batch: tuple[float, float] | None = None
    contents = sum(shard.member_bytes for shard in shards)
    if total and contents:
        # Bytes of a sample.
        mean = contents / total
        shuffle_bytes = round(buffered * mean)
        first_batch = _first_batch(arguments, shards, reads * mean, workers)

    height, width, is_size_known = image_size(arguments)
    image_bytes = 3 * height * width * 4
    token_bytes = (arguments.force_context_length or 77) * 8
    batch_bytes = arguments.batch_size * (image_bytes + token_bytes)
    free, shm_total = _free_memory()
    return Resources(
        shuffle_bytes=shuffle_bytes,
        available_bytes=free,
        shm_bytes=_PREFETCH * arguments.workers * arguments.local_world_size * batch_bytes,
        shm_total=shm_total,
        image_size=(height, width),
        image_size_known=is_size_known,
        raw_before_first=reads,
        first_batch=first_batch,
    )


def _most_buffered(raw: Sequence[int], workers: int, size: int, initial: int) -> int:
    """Return the most samples that the shuffle buffers of one machine hold.

    ``raw``: the samples of each worker, rank by rank.
    """
    most = 0
    for start in range(0, len(raw), workers):
        of_machine = raw[start : start + workers]
        most = max(most, sum(most_in_buffer(samples, size, initial) for samples in of_machine))
    return most


def most_in_buffer(samples: int, size: int, initial: int) -> int:
    """Return the number of samples that a shuffle buffer holds at most.

    It fills up to ``initial`` samples first, then takes two for each sample that it yields.

    >>> [most_in_buffer(n, 5000, 1000) for n in (10, 1000, 3000, 100_000)]
    [10, 1000, 2000, 5000]
    """
    initial = min(initial, size)
    if samples <= initial:
        return samples
    return min(size, initial + (samples - initial) // 2)


def image_size(arguments: Arguments) -> tuple[int, int, bool]:
    """Return height and width of the model's input, and whether they are known (not assumed)."""
    size: object = arguments.force_image_size or _model_config(arguments.model).get("image_size")
    sides: list[Any] = []
    if isinstance(size, int):
        sides = [size]
    elif isinstance(size, list | tuple):
        sides = list(size)
    if not sides or not all(isinstance(side, int) and side > 0 for side in sides):
        return 224, 224, False
    return sides[0], sides[-1], True


def _model_config(model: str) -> Mapping[str, object]:
    """Read a model's vision config without importing open_clip.

    open_clip finds it in its own files, or in a local folder.
    """
    is_local = model.startswith(_LOCAL)
    path = _local_config(model) if is_local else _built_in_config(model)
    if path is None:
        return {}
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if is_local and isinstance(config, dict):
        config = config.get("model_cfg")
    vision = config.get("vision_cfg") if isinstance(config, dict) else None
    return vision if isinstance(vision, dict) else {}


def _local_config(model: str) -> Path:
    return Path(model.removeprefix(_LOCAL), "open_clip_config.json")


def _built_in_config(model: str) -> Path | None:
    """Return the path of the config of a model that is built into open_clip.

    Returns None if the name cannot be that of a model.
    """
    spec = importlib.util.find_spec("open_clip")
    if spec is None or spec.origin is None:
        return None
    name = model.replace("/", "-")
    if not _NOT_LETTERS.sub("", name).isalnum():
        return None
    return Path(spec.origin).parent / "model_configs" / f"{name}.json"


def _first_batch(
    arguments: Arguments, shards: Sequence[ShardEvidence], contents: float, workers: int
) -> tuple[float, float]:
    """Return the seconds until each worker has its first batch, fast and slow end.

    Args:
        arguments: the training command.
        shards: all shards.
        contents: bytes that a worker reads before.
        workers: of one machine.
    """
    images = sum(shard.images.count for shard in shards)
    pixels = sum(shard.images.pixels for shard in shards) / images if images else 0.0
    workers_per_core = max(1.0, workers / (os.cpu_count() or 1))
    seconds = []
    for machine in (_FAST, _SLOW):
        reading = contents * workers / machine.storage
        image = machine.image + pixels / machine.pixels
        seconds.append(reading + arguments.batch_size * workers_per_core * image)
    fast, slow = seconds
    return fast, slow


def _free_memory() -> tuple[int | None, int | None]:
    """Return the free memory of this machine and the size of its /dev/shm, in bytes.

    A value that is not known is None.
    """
    from wdsflow.memory.bounds import host_memory

    memory = shared = None
    with suppress(OSError, RuntimeError):
        memory = host_memory().free
    with suppress(OSError):
        shared = shutil.disk_usage("/dev/shm").total  # noqa: S108 - only its size
    return memory, shared
