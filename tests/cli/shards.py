"""Small shards for the tests of the command line."""

import io
import json
import tarfile
from pathlib import Path

from PIL import Image


def jpeg(side: int = 32) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((side, side)).convert("RGB").save(buffer, "JPEG")
    return buffer.getvalue()


def write(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def with_txt(folder: Path, shards: int = 2, samples: int = 8) -> str:
    """Shards as OpenCLIP wants them; returns their pattern."""
    image = jpeg()
    for shard in range(shards):
        members: dict[str, bytes] = {}
        for sample in range(samples):
            key = f"{shard:02d}{sample:04d}"
            members |= {
                f"{key}.jpg": image,
                f"{key}.txt": f"picture number {sample} of {shard}".encode(),
            }
        write(folder / f"{shard:04d}.tar", members)
    return f"{folder}/{{0000..{shards - 1:04d}}}.tar"


def with_json(folder: Path, shards: int = 2, samples: int = 8) -> str:
    """The same with the captions in json, where OpenCLIP 3.3 does not look."""
    image = jpeg()
    for shard in range(shards):
        members: dict[str, bytes] = {}
        for sample in range(samples):
            key = f"{shard:02d}{sample:04d}"
            caption = json.dumps({"caption": f"picture number {sample} of {shard}"}).encode()
            members |= {f"{key}.jpg": image, f"{key}.json": caption}
        write(folder / f"{shard:04d}.tar", members)
    return f"{folder}/{{0000..{shards - 1:04d}}}.tar"
