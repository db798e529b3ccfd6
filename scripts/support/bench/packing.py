"""Packing loose files with a table, compared with `tar cf` of the same files.

Both are timed until all bytes are on the disk, from a warm page cache.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.bench.filtering import MakeClock, folder_near


def ours(paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """`wdsflow pack`, with its usual two jobs."""
    import orjson
    import xxhash

    from wdsflow.packing.run_pack import pack_shards
    from wdsflow.packing.shard import write_shard

    del orjson, xxhash, write_shard
    with unpacked_pictures(paths) as folder:
        timer = clock()
        report = pack_shards(str(folder / "table.jsonl"), folder.parent / "out")
        result: dict[str, Any] = timer.stop(samples=report.samples)
    return result


def tar(paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """GNU tar, and sync."""
    with unpacked_pictures(paths) as folder:
        timer = clock()
        subprocess.run(["tar", "cf", "out.tar", folder.name], cwd=folder.parent, check=True)
        subprocess.run(["sync", "out.tar"], cwd=folder.parent, check=True)
        result: dict[str, Any] = timer.stop()
    return result


@contextmanager
def unpacked_pictures(paths: Sequence[str]) -> Iterator[Path]:
    """Unpack the pictures of shards, and write a table of them with their captions."""
    with folder_near(paths) as parent:
        folder = Path(parent, "files")
        rows = []
        for number, path in enumerate(paths):
            part = folder / f"{number:04d}"
            part.mkdir(parents=True)
            subprocess.run(["tar", "xf", os.path.abspath(path)], cwd=part, check=True)
            for text in sorted(part.glob("*.txt")):
                image = text.with_suffix(".jpg")
                rows.append({"image": str(image.relative_to(folder)), "caption": text.read_text()})
            for member in (*part.glob("*.txt"), *part.glob("*.json")):
                member.unlink()
        (folder / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.sync()
        yield folder
