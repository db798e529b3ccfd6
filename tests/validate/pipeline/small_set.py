"""Small shards, and pipelines judged on them."""

import io
import random
import tarfile
from functools import cache
from pathlib import Path

import pytest
from PIL import Image

from wdsflow.cli.main import main
from wdsflow.scan.evidence import Evidence, Level, ScanOptions
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.source.base import single_shard
from wdsflow.validate import Verdict
from wdsflow.validate.pipeline.judge_pipeline import RunLimits, judge_pipeline

HERE = Path(__file__).parent


@cache
def jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG")
    return buffer.getvalue()


def write(path: Path, samples: int, missing: int = 0, start: int = 0, picture: bytes = b"x") -> str:
    """Write samples of a picture and a caption of up to 12 characters.

    ``missing``: every so many samples, one lacks its caption.
    """
    with tarfile.open(path, "w") as tar:
        for number in range(start, start + samples):
            fields = {"jpg": picture, "txt": b"a" * (number % 12 + 1)}
            if missing and number % missing == missing - 1:
                del fields["txt"]
            for field, data in fields.items():
                info = tarfile.TarInfo(f"{number:06d}.{field}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return str(path)


def forty(folder: Path) -> list[str]:
    """Write four shards of ten samples, of which the last lacks its caption."""
    return [
        write(folder / f"{shard}.tar", 10, missing=10, start=10 * shard, picture=jpeg())
        for shard in range(4)
    ]


@cache
def noise(seed: int) -> bytes:
    """Return a picture that no other seed gives."""
    buffer = io.BytesIO()
    Image.frombytes("RGB", (16, 16), random.Random(seed).randbytes(768)).save(buffer, "PNG")
    return buffer.getvalue()


def different(folder: Path, samples: int = 40, shards: int = 4, copies: int = 1) -> list[str]:
    """Write shards of samples with different pictures.

    Some samples have the caption of another, and labels repeat.

    ``copies``: so many samples after each other have the same content.
    """
    urls = []
    for shard in range(shards):
        urls.append(str(folder / f"{shard}.tar"))
        with tarfile.open(urls[-1], "w") as tar:
            for number in range(shard * samples // shards, (shard + 1) * samples // shards):
                content = number // copies
                caption = f"a caption of picture {content - content % 20 if content % 20 < 3 else content}"
                fields = {
                    "png": noise(content),
                    "txt": caption.encode(),
                    "cls": str(content % 4).encode(),
                }
                for field, data in fields.items():
                    info = tarfile.TarInfo(f"{number:06d}.{field}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return urls


def scanned(urls: list[str], level: Level = "full") -> tuple[Evidence, ScanOptions]:
    options = ScanOptions(level)
    return Evidence(level, [scan_shard(single_shard(url), options) for url in urls]), options


def judged(module: str, name: str, urls: list[str], limits: RunLimits | None = None) -> Verdict:
    return judge_pipeline(f"{HERE / module}.py:{name}", scanned(urls)[0], limits=limits)


def run(*words: str) -> int:
    """Run ``wdsflow validate``, and return its exit status."""
    with pytest.raises(SystemExit) as ended:
        main(["validate", *words])
    return int(ended.value.code or 0)
