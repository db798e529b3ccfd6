"""Resources that OpenCLIP's loader needs per machine: memory, shared memory, and time to the first batch."""

import importlib.util
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.open_clip_33 import OpenClip33
from wdsflow.scan.evidence import ShardEvidence

_LOCAL = "local-dir:"  # how --model names a folder with a config
_PREFETCH = 2  # batches that torch keeps ready for each worker

# Assumptions for the time to the first batch, fast end and slow end: storage of one machine in bytes per second;
# Pillow's time for one image in seconds, plus megapixels per second on one core, with resizing.
_STORAGE = (2e9, 1e8)
_IMAGE = (0.0003, 0.0015)
_PIXELS = (1e8, 4e7)


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one machine. ``None``: not known at this level."""

    shuffle_bytes: int | None  # contents of all shuffle buffers at their fullest
    available_bytes: int | None  # memory free on this machine
    shm_bytes: int  # for batches on their way to the training process
    shm_total: int | None  # size of /dev/shm here
    image_size: tuple[int, int]  # height, width
    image_size_known: bool  # False: 224 was assumed
    raw_before_first: int  # samples that a worker reads before its first batch
    first_batch: tuple[float, float] | None  # seconds, fast and slow end


def estimate(
    arguments: Arguments, reader: OpenClip33, shards: Sequence[ShardEvidence], raw: Sequence[int], usable: int
) -> Resources:
    """Return the resources that one machine needs.

    Args:
        arguments: the training command.
        reader: reader whose loader is used.
        shards: all shards.
        raw: samples in the shards of each worker, rank by rank; one entry, the sum, if shards are drawn.
        usable: number of samples in ``shards`` that reach a batch.
    """
    buffer = reader.buffers()
    size, initial = buffer.samples, buffer.samples_initial
    total, contents = sum(raw), sum(shard.member_bytes for shard in shards)
    mean = contents / total if total and contents else None
    split = max(1, arguments.workers)
    local = arguments.local_world_size * split
    if arguments.dataset_resampled:
        buffers = size * local
        most_raw: float = float("inf")
    else:
        machines = [raw[start : start + local] for start in range(0, len(raw), local)]
        buffers = max((sum(fullest(each, size, initial) for each in machine) for machine in machines), default=0)
        most_raw = max(raw, default=0)
    height, width, known = image_size(arguments)
    batch = arguments.batch_size * (3 * height * width * 4 + (arguments.force_context_length or 77) * 8)
    wanted = arguments.batch_size * total / usable if usable else 0.0  # samples that contain this many usable ones
    reads = int(min(most_raw, initial + 2 * wanted))
    return Resources(
        shuffle_bytes=None if mean is None else round(buffers * mean),
        available_bytes=_available_memory(),
        shm_bytes=_PREFETCH * arguments.workers * arguments.local_world_size * batch,
        shm_total=_shm_total(),
        image_size=(height, width),
        image_size_known=known,
        raw_before_first=reads,
        first_batch=None if mean is None else _first_batch(arguments, shards, reads * mean, local),
    )


def fullest(samples: int, size: int, initial: int) -> int:
    """Return how full a shuffle buffer gets over a number of samples: from ``initial`` on it takes two for one given.

    >>> [fullest(n, 5000, 1000) for n in (10, 1000, 3000, 100_000)]
    [10, 1000, 2000, 5000]
    """
    initial = min(initial, size)
    return min(size, samples if samples <= initial else initial + (samples - initial) // 2)


def image_size(arguments: Arguments) -> tuple[int, int, bool]:
    """Return height and width of the model's input, and whether they are known (not assumed)."""
    size: object = arguments.force_image_size
    if not size:
        size = _model_config(arguments.model).get("image_size")
    sides = [size] if isinstance(size, int) else list(size) if isinstance(size, list | tuple) else []
    if not sides or not all(isinstance(side, int) and side > 0 for side in sides):
        return 224, 224, False
    return sides[0], sides[-1], True


def _model_config(model: str) -> Mapping[str, object]:
    """Read a model's vision config, as open_clip finds it in its own files or in a local folder, without importing it."""
    path, local = _config_path(model), model.startswith(_LOCAL)
    try:
        config = json.loads(path.read_bytes()) if path is not None else None
    except (OSError, ValueError, RecursionError):
        return {}
    config = config.get("model_cfg") if local and isinstance(config, dict) else config
    part = config.get("vision_cfg") if isinstance(config, dict) else None
    return part if isinstance(part, dict) else {}


def _config_path(model: str) -> Path | None:
    """Return where open_clip looks for the config of a model; None if it is not on this machine."""
    if model.startswith(_LOCAL):
        return Path(model.removeprefix(_LOCAL)) / "open_clip_config.json"
    spec, name = importlib.util.find_spec("open_clip"), model.replace("/", "-")
    if spec is None or spec.origin is None or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        return None
    return Path(spec.origin).parent / "model_configs" / f"{name}.json"


def _first_batch(
    arguments: Arguments, shards: Sequence[ShardEvidence], contents: float, local: int
) -> tuple[float, float]:
    images = sum(shard.images.count for shard in shards)
    pixels = sum(shard.images.pixels for shard in shards) / images if images else 0.0
    crowd = max(1.0, local / (os.cpu_count() or 1))
    fast, slow = (
        contents * local / storage + arguments.batch_size * crowd * (each + pixels / rate)
        for storage, each, rate in zip(_STORAGE, _IMAGE, _PIXELS, strict=True)
    )
    return fast, slow


def _available_memory() -> int | None:
    from wdsflow.memory.limits import host_memory

    try:
        return host_memory().free
    except (OSError, RuntimeError):
        return None


def _shm_total() -> int | None:
    try:
        return shutil.disk_usage("/dev/shm").total  # noqa: S108 - asked for its size only
    except OSError:
        return None
