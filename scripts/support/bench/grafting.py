"""A graft of new captions, to be compared with `cp` of the shards.

The table is a Parquet file with a row for each sample, in an order that is not that of the shards.
"""

import os
import random
from collections.abc import Sequence
from typing import Any

from support.bench.filtering import MakeClock, folder_near


def ours(paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """`wdsflow graft`, in one process, with the two threads that are its default."""
    _import()
    with folder_near(paths) as folder:
        table = caption_table(paths, folder)
        timer = clock()
        report = _graft(paths, folder, table)
        result: dict[str, Any] = timer.stop(samples=report.total("matched"))
    return result


def _import() -> None:
    import duckdb
    import xxhash

    import wdsflow.reshaping.graft.run_graft

    del duckdb, xxhash, wdsflow


def caption_table(paths: Sequence[str], folder: str) -> str:
    """Write a table with a caption for each sample, in another order; return its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from wdsflow.shards.samples.tar_samples import Samples
    from wdsflow.shards.source.base import single_shard
    from wdsflow.shards.source.opening import open_source

    keys = []
    for path in paths:
        with open_source(single_shard(path)) as source:
            keys += [sample.key for sample in Samples(source, contents=False)]
    random.Random(1).shuffle(keys)
    captions = [
        f"a new caption for {key}, longer than the old one, as models write them" for key in keys
    ]
    table = os.path.join(folder, "captions.parquet")
    pq.write_table(pa.table({"key": keys, "caption": captions}), table)
    return table


def _graft(paths: Sequence[str], folder: str, table: str) -> Any:
    from wdsflow.reshaping.graft.run_graft import graft_shards

    out = os.path.join(folder, "out")
    return graft_shards(paths, out, table=table, on="key", fields=["txt=caption"], jobs=2)
