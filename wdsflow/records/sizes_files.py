"""Write the number of samples for trainers: ``sizes.json`` and ``__len__``."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from wdsflow.shards.atomic import write_file
from wdsflow.text.words import how_many

COUNTS = ("sizes.json", "__len__")


def write_counts(folder: Path, samples: Mapping[str, int]) -> None:
    """Write ``sizes.json`` (base name of a shard -> samples), and the sum to ``__len__``: both, or none.

    OpenCLIP reads both files next to the first shard, and then needs no ``--train-num-samples``. Raises OSError.
    """
    sizes, length = COUNTS
    try:
        write_file(folder / sizes, json.dumps(dict(samples), indent=1).encode() + b"\n")
        write_file(folder / length, str(sum(samples.values())).encode() + b"\n")
    except OSError:
        remove_counts(folder)
        raise


def uncounted_text(samples: int) -> str:
    """Return what is said of copied samples that ``write_counts`` is not told, as readers do not count them.

    >>> uncounted_text(2)
    'not counted in sizes.json: 2 samples that are macOS files or have the key of another sample'
    """
    what = how_many(samples, "sample that is a macOS file or has", "samples that are macOS files or have")
    return f"not counted in sizes.json: {what} the key of another sample"


def known_counts(folder: Path, place: Path | None = None) -> dict[str, int]:
    """Return what ``sizes.json`` of a folder, or one in another ``place``, says of the folder's shards that exist."""
    with suppress(OSError, ValueError):
        before = json.loads(((place or folder) / COUNTS[0]).read_bytes())
        if isinstance(before, dict):
            return {
                name: count
                for name, count in before.items()
                if isinstance(count, int) and "/" not in name and (folder / name).is_file()
            }
    return {}


def remove_counts(folder: Path) -> None:
    """Remove what ``write_counts`` wrote."""
    for name in COUNTS:
        (folder / name).unlink(missing_ok=True)
