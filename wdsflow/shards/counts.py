"""Write the number of samples for trainers: ``sizes.json`` and ``__len__``."""

import json
from contextlib import suppress
from pathlib import Path

from wdsflow.shards.atomic import write_file
from wdsflow.text.words import how_many


def write_counts(folder: Path, samples: dict[str, int]) -> None:
    """Add shards to ``sizes.json`` (base name -> samples) and write their sum to ``__len__``.

    Shards that ``sizes.json`` listed before stay in it as long as they exist. OpenCLIP reads both files next to the
    first shard, and then needs no ``--train-num-samples``.
    """
    known = known_counts(folder)
    known.update(samples)
    ordered = dict(sorted(known.items()))
    write_file(folder / "sizes.json", json.dumps(ordered, indent=1).encode() + b"\n")
    write_file(folder / "__len__", str(sum(ordered.values())).encode() + b"\n")


def uncounted_text(samples: int) -> str:
    """Return what is said of copied samples that ``write_counts`` is not told, as readers do not count them.

    >>> uncounted_text(2)
    'not counted in sizes.json: 2 samples of macOS or with the key of another one'
    """
    return f"not counted in sizes.json: {how_many(samples, 'sample')} of macOS or with the key of another one"


def known_counts(folder: Path) -> dict[str, int]:
    """Return what ``sizes.json`` of a folder says of shards that exist."""
    with suppress(OSError, ValueError):
        before = json.loads((folder / "sizes.json").read_bytes())
        if isinstance(before, dict):
            return {
                name: count
                for name, count in before.items()
                if isinstance(count, int) and "/" not in name and (folder / name).is_file()
            }
    return {}


def remove_counts(folder: Path) -> None:
    """Remove what ``write_counts`` wrote."""
    for name in ("sizes.json", "__len__"):
        (folder / name).unlink(missing_ok=True)
