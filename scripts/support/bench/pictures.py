"""The same pictures as shards for us and as files for Data-Juicer.

All are valid, or two of them are damaged.
"""

import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.environment import ensure_juicer

from . import filtering

WHERE = "min_side >= 200 and aspect_ratio <= 3 and not is_blank"
# Pictures of the damaged set; one of them is cut, one is an error page.
SOME, CUT, PAGE = 1000, 300, 700
_PAGE = b"<!DOCTYPE html><html><body><h1>404 Not Found</h1></body></html>"


def ours(paths: Sequence[str], clock: filtering.MakeClock) -> dict[str, Any]:
    """`wdsflow filter` by size, aspect and blankness, in one process."""
    import PIL.Image
    import simplejpeg

    del PIL, simplejpeg
    return filtering.ours(paths, clock, WHERE)


def ours_damaged(paths: Sequence[str], clock: filtering.MakeClock) -> dict[str, Any]:
    """Run ``ours`` on a shard of 1,000 samples, two of them damaged.

    ``lost`` is the number of valid samples that were not kept.
    """
    with filtering.folder_near(paths) as folder:
        shard = os.path.join(folder, "in", "0.tar")
        os.mkdir(os.path.dirname(shard))
        with tarfile.open(paths[0]) as source, tarfile.open(shard, "w") as target:
            for number, member in zip(range(3 * SOME), source, strict=False):
                file = source.extractfile(member)
                assert file is not None
                data = file.read()
                if member.name.endswith(".jpg"):
                    data = _damaged(data, number // 3)
                member.size = len(data)
                target.addfile(member, io.BytesIO(data))
        result = ours([shard], clock)
    return {
        "seconds": result["seconds"],
        "cpu_seconds": result["cpu_seconds"],
        **balance(result["seen"]),
    }


def balance(kept: int) -> dict[str, int]:
    """Return the numbers of valid pictures lost and damaged ones kept.

    Both are derived from the number of kept pictures.

    If more are kept than are valid, some are damaged; otherwise all that are kept count as valid.
    """
    valid = SOME - 2
    return {"lost": max(0, valid - kept), "damaged_kept": max(0, kept - valid)}


def _damaged(data: bytes, number: int) -> bytes:
    if number == PAGE:
        return _PAGE
    if number == CUT:
        return data[: len(data) // 2]
    return data


def as_files(paths: Sequence[str], folder: Path, *, damaged: bool = False) -> str:
    """Write the pictures of shards as files, with a list of them in JSON lines.

    Returns the path of the list.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines: list[str] = []
    for path in paths:
        with tarfile.open(path) as shard:
            for member in shard:
                if not member.name.endswith(".jpg"):
                    continue
                file = shard.extractfile(member)
                assert file is not None
                data = file.read()
                if damaged:
                    data = _damaged(data, len(lines))
                picture = folder / f"{len(lines):06d}.jpg"
                picture.write_bytes(data)
                lines.append(json.dumps({"text": "", "images": [str(picture)]}) + "\n")
                if damaged and len(lines) == SOME:
                    break
    listed = folder / "pictures.jsonl"
    listed.write_text("".join(lines))
    return str(listed)


def data_juicer(paths: Sequence[str], folder: Path, *, damaged: bool) -> dict[str, Any]:
    """Filter the same pictures with Data-Juicer, in an environment of its own."""
    lines = as_files(paths, folder, damaged=damaged)
    script = str(Path(__file__).with_name("juicer_filters.py"))
    command = [str(ensure_juicer()), script, json.dumps([lines, not damaged])]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"Data-Juicer ended with {process.returncode}\n{process.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    if damaged:
        result |= balance(result.pop("seen"))
    return result
