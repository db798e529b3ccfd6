"""A graft of new captions next to `cp` of the same bytes; both are synced.

The table is a Parquet file with a row for each sample, in an order that is not that of the shards.
"""

import os
import random
import subprocess
from collections.abc import Sequence
from typing import Any

from support.bench.filtering import MakeClock, beside


def ours(paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """`wdsflow graft`, in one process, with the two threads that are its default."""
    _import()
    with beside(paths) as folder:
        table = _table(paths, folder)
        begun = clock()
        report = _graft(paths, folder, table)
        written = _size(os.path.join(folder, "out"))
        result: dict[str, Any] = begun.stop(samples=report.total("matched"), seen=written)
    return result


def copy(paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """Copy by `cp` what a graft wrote, from a warm page cache, and sync the copies."""
    _import()
    with beside(paths) as folder:
        report = _graft(paths, folder, _table(paths, folder))
        source, target = os.path.join(folder, "out"), os.path.join(folder, "copy")
        names = [entry.path for entry in os.scandir(source) if entry.name.endswith(".tar")]
        subprocess.run(["cat", *names], stdout=subprocess.DEVNULL, check=True)
        os.mkdir(target)
        begun = clock()
        subprocess.run(["cp", *names, target], check=True)
        subprocess.run(["sync", *(os.path.join(target, os.path.basename(name)) for name in names)], check=True)
        result: dict[str, Any] = begun.stop(samples=report.total("matched"), seen=_size(target))
    return result


def _import() -> None:
    import pyarrow.parquet
    import xxhash

    import wdsflow.reshaping.graft.run_graft

    del pyarrow, xxhash, wdsflow


def _table(paths: Sequence[str], folder: str) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from wdsflow.shards.samples.tar_samples import Samples
    from wdsflow.shards.source.opening import open_source

    keys = []
    for path in paths:
        with open_source(path) as source:
            keys += [sample.key for sample in Samples(source, contents=False)]
    random.Random(1).shuffle(keys)
    captions = [f"a new caption for {key}, longer than the old one, as models write them" for key in keys]
    table = os.path.join(folder, "captions.parquet")
    pq.write_table(pa.table({"key": keys, "caption": captions}), table)
    return table


def _graft(paths: Sequence[str], folder: str, table: str) -> Any:
    from wdsflow.reshaping.graft.run_graft import graft_shards

    out = os.path.join(folder, "out")
    return graft_shards(paths, out, table=table, on="key", fields=["txt=caption"], jobs=2)


def _size(folder: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".tar"))
