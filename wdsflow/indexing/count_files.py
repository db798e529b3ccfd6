"""Files with the number of samples in each shard of a folder: those of OpenCLIP and timm."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from wdsflow.records.shard_counts import read_counts

from .shard_pass import ShardFacts

SIZES, LENGTH = "sizes.json", "__len__"
TIMM = "_info.json"

# By base name, in order.
Shards = Mapping[str, ShardFacts]

_HELD_OUT = re.compile(r"(?:^|[-_.])(val|valid|validation|test)(?:[-_.]|$)", re.IGNORECASE)


def render_counts(
    folder: Path, shards: Shards, kinds: Collection[str], without: Collection[str] = ()
) -> dict[str, bytes]:
    """Return ``sizes.json``, ``__len__`` and timm's ``_info.json``, if they are among the kinds.

    ``sizes.json`` and ``__len__`` keep the entries of other shards in the folder, except for those
    of ``without``. If one of them is requested, and the other exists with other numbers, that is
    returned, too: readers take either.
    """
    sizes = {name: count for name, count in read_counts(folder).items() if name not in without}
    sizes |= {name: facts.samples for name, facts in shards.items()}
    files: dict[str, bytes] = {}
    if "sizes" in kinds or ("len" in kinds and _has_other_sizes(folder / SIZES, sizes)):
        files[SIZES] = as_json(dict(sorted(sizes.items())))
    if "len" in kinds or (
        "sizes" in kinds and _has_other_length(folder / LENGTH, sum(sizes.values()))
    ):
        files[LENGTH] = f"{sum(sizes.values())}\n".encode()
    if "timm" in kinds:
        splits = {
            split: _timm_split(split, names, shards) for split, names in splits_of(shards).items()
        }
        files[TIMM] = as_json({"splits": splits})
    return files


def _has_other_sizes(path: Path, sizes: Mapping[str, int]) -> bool:
    """Return whether a file exists that does not hold these numbers."""
    try:
        return bool(json.loads(path.read_bytes()) != sizes)
    except (OSError, ValueError, RecursionError):
        return path.exists()


def _has_other_length(path: Path, length: int) -> bool:
    """Return whether a file exists that does not hold this number."""
    try:
        return int(path.read_bytes()) != length
    except (OSError, ValueError):
        return path.exists()


def _timm_split(split: str, names: Sequence[str], shards: Shards) -> dict[str, object]:
    lengths = [shards[name].samples for name in names]
    return {
        "name": split,
        "num_samples": sum(lengths),
        "filenames": names,
        "shard_lengths": lengths,
        "alt_label": "",
    }


def splits_of(shards: Iterable[str]) -> dict[str, list[str]]:
    """Return the shards of each split, by their names.

    >>> splits_of(["imagenet-train-0001.tar", "cc3m-val-01.tar", "test_0.tar", "contest-0.tar"])
    {'train': ['imagenet-train-0001.tar', 'contest-0.tar'], 'validation': ['cc3m-val-01.tar'],
    'test': ['test_0.tar']}
    """
    splits: dict[str, list[str]] = {}
    for name in shards:
        splits.setdefault(_split_of(name), []).append(name)
    return splits


def _split_of(name: str) -> str:
    held_out = _HELD_OUT.search(name)
    if held_out is None:
        return "train"
    return "test" if held_out[1].lower() == "test" else "validation"


def as_json(value: object) -> bytes:
    """Return a value as the JSON of these files."""
    return json.dumps(value, indent=1).encode() + b"\n"
