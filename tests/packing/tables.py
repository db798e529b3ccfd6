"""Folders with small images, and tables that name them."""

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image

from tests.shards.archives import read_tar

Sample = dict[str, bytes]


def jpeg(number: int = 0, kind: str = "JPEG") -> bytes:
    """Return an image that differs from all others."""
    stream = io.BytesIO()
    Image.new("RGB", (16, 12), (number % 256, number // 256 % 256, 90)).save(stream, kind)
    return stream.getvalue() + b"%d" % number


def write_images(folder: Path, count: int = 10) -> list[str]:
    """Write ``img/0.jpg`` and so on; return the paths below the folder."""
    (folder / "img").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"img/{number}.jpg").write_bytes(jpeg(number))
    return [f"img/{number}.jpg" for number in range(count)]


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> str:
    """Write JSON lines; return the path as text."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def write_csv(path: Path, rows: list[dict[str, Any]], separator: str = ",") -> str:
    """Write a table with the names of the first row's columns; return the path as text."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def usual_rows(paths: list[str]) -> list[dict[str, Any]]:
    """Return a row for each image."""
    return [
        {"image": path, "caption": f"caption {n}", "id": f"id-{n}", "width": n}
        for n, path in enumerate(paths)
    ]


def packed(out: Path) -> dict[str, Sample]:
    """Return the fields of all samples in a folder of shards, by key.

    A key must not repeat.
    """
    found: dict[str, Sample] = {}
    last = ""
    for path in sorted(out.glob("*.tar")):
        for name, data in read_tar(path):
            folder, _, base = name.rpartition("/")
            stem, _, field = base.partition(".")
            key = f"{folder}/{stem}" if folder else stem
            if key != last:
                assert key not in found, key
            last = key
            assert field not in found.setdefault(key, {}), name
            found[key][field] = data
    return found
