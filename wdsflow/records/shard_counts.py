"""The sample counts of a folder's shards: ``sizes.json`` and ``__len__``.

Readers use them as the length of an epoch.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from wdsflow.shards.atomic import write_file
from wdsflow.text.words import how_many

COUNTS = ("sizes.json", "__len__")


def write_counts(folder: Path, samples: Mapping[str, int]) -> None:
    """Write ``sizes.json`` and ``__len__``: both, or none.

    ``sizes.json`` has the samples of each shard by base name, ``__len__`` the sum.

    OpenCLIP reads both files next to the first shard, and then needs no ``--train-num-samples``.
    Raises OSError.
    """
    sizes, length = COUNTS
    try:
        write_file(folder / sizes, json.dumps(dict(samples), indent=1).encode() + b"\n")
        write_file(folder / length, str(sum(samples.values())).encode() + b"\n")
    except OSError:
        remove_counts(folder)
        raise


def uncounted_text(samples: int) -> str:
    """Return a line about copied samples that readers do not count.

    They are not in the counts for that reason.

    >>> uncounted_text(2)
    'not counted in sizes.json: 2 samples that have the key of another sample'
    """
    copies = how_many(samples, "sample that has", "samples that have")
    return f"not counted in sizes.json: {copies} the key of another sample"


def read_counts(folder: Path, counts_folder: Path | None = None) -> dict[str, int]:
    """Return the sample counts of a folder's existing shards.

    They are read from its ``sizes.json``, or from that in ``counts_folder``.
    """
    sizes, _ = COUNTS
    try:
        stored = json.loads(((counts_folder or folder) / sizes).read_bytes())
        if not isinstance(stored, dict):
            return {}
        names = [name for name in stored if "/" not in name and (folder / name).is_file()]
    except (OSError, ValueError):
        return {}
    return {name: stored[name] for name in names if isinstance(stored[name], int)}


def remove_counts(folder: Path) -> None:
    """Remove the files of ``write_counts``."""
    for name in COUNTS:
        (folder / name).unlink(missing_ok=True)
