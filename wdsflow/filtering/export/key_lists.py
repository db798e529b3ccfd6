"""Lists of kept samples by their keys, or by the uids of DataComp."""

import io
import re
from collections.abc import Sequence
from pathlib import Path

from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.shards.atomic import write_file

from .kept_samples import json_of, kept_samples

_UID = re.compile("[0-9a-f]{32}")


def write_keys(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    """Write the keys, one a line; return their number."""
    keys: list[str] = []
    for record in records:
        keys += [sample.key for sample, _ in kept_samples(layout, record)]
    if any("\n" in key or "\r" in key for key in keys):
        raise ValueError("keys with line breaks cannot be listed in .txt; export to .parquet")
    text = "".join(f"{key}\n" for key in keys)
    write_file(path, text.encode("utf-8", "surrogateescape"))
    return len(keys)


def write_uids(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    """Write the uids in the samples' json as sorted pairs of numbers; return how many there are."""
    import numpy as np

    pairs: list[tuple[int, int]] = []
    missing = 0
    for record in records:
        for sample, samples in kept_samples(layout, record):
            uid = json_of(sample, samples).get("uid")
            if isinstance(uid, str) and _UID.fullmatch(uid):
                pairs.append((int(uid[:16], 16), int(uid[16:], 16)))
            else:
                missing += 1
    if missing:
        raise ValueError(
            f"{missing:,} of the kept samples have no uid of 32 hexadecimal digits in their json"
        )
    sink = io.BytesIO()
    np.save(sink, np.array(sorted(pairs), np.dtype("u8,u8")))
    write_file(path, sink.getvalue())
    return len(pairs)
