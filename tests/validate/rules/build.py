"""Tiny shards, one for each thing that can be wrong with them."""

import io
import json
import struct
import tarfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from PIL import Image

from wdsflow.readers import READERS, scan_options
from wdsflow.readers.base import Options
from wdsflow.scan.evidence import Evidence, Level, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.source.base import single_shard
from wdsflow.text.install import install_packages
from wdsflow.validate import Finding
from wdsflow.validate.catalog.run_rules import run_rules
from wdsflow.validate.rules.kit.base import Context
from wdsflow.validate.verdicts.judge import judge

Members = list[tuple[str, bytes]]
PADDED = 2048  # bytes of each image, so that offsets do not depend on the encoder's version
ZEROS = bytes(1024)  # the end mark


@dataclass(frozen=True)
class Case:
    """Shards by name, and for whom they are judged. Bytes of None: no such file."""

    shards: dict[str, bytes | None]
    readers: tuple[str, ...] = ("open-clip-3.3",)
    level: Level = "headers"
    options: Options = field(default_factory=Options)
    # Of the first shard, where real bytes would be too many.
    facts: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> list[str]:
        """Write the shards into a folder; return their names.

        Includes the names of missing shards.
        """
        for name, data in self.shards.items():
            if data is not None:
                (folder / name).write_bytes(data)
        return sorted(self.shards)

    def context(self, folder: Path) -> Context:
        self.write(folder)
        urls = [single_shard(str(folder / name)) for name in self.shards]
        readers = [READERS[name](self.options) for name in self.readers]
        options = scan_options(self.level, readers, urls)
        shards = [scan_shard(url, options) for url in urls]
        if self.facts:
            shards[0] = replace(shards[0], **self.facts)
        return context_of(shards, self.readers, self.level, self.options)

    def findings(self, folder: Path, *select: str) -> list[Finding]:
        return run_rules(self.context(folder), select)[0]


def context_of(
    shards: list[ShardEvidence],
    readers: Iterable[str] = ("open-clip-3.3",),
    level: Level = "headers",
    options: Options | None = None,
) -> Context:
    evidence = Evidence(level, shards)
    made = [READERS[name](options) for name in readers]
    urls = tuple(shard.url for shard in shards)
    return Context(evidence, made, [judge(evidence, each) for each in made], urls=urls)


def tar(
    members: Iterable[tuple[str, bytes] | tarfile.TarInfo], *, end: bool = True, mtime: float = 0
) -> bytes:
    """Return a tar of files in the given order; a TarInfo stands for a member without contents."""
    stream = io.BytesIO()
    for member in members:
        info = tarfile.TarInfo(member[0]) if isinstance(member, tuple) else member
        data = member[1] if isinstance(member, tuple) else b""
        info.size, info.mtime = len(data), mtime
        long = mtime % 1 or len(info.name.encode("utf-8", "surrogateescape")) > 99
        stream.write(
            info.tobuf(
                tarfile.PAX_FORMAT if long else tarfile.USTAR_FORMAT, "utf-8", "surrogateescape"
            )
        )
        stream.write(data + bytes(-len(data) % 512))
    return stream.getvalue() + (ZEROS if end else b"")


def samples(count: int, start: int = 0, **fields: bytes) -> Members:
    """Return members of samples with the given fields.

    Without fields, each has a jpg and ``txt=b"a dog"``.
    """
    given = fields or {"jpg": jpeg(), "txt": b"a dog"}
    return [
        (f"{index:03d}.{name}", data)
        for index in range(start, start + count)
        for name, data in given.items()
    ]


def pairs(count: int, start: int = 0, **more: bytes) -> Members:
    """Return members of valid samples, with further fields."""
    return samples(count, start, jpg=jpeg(), txt=b"a dog", **more)


def jpeg(
    size: tuple[int, int] = (64, 48), mode: str = "RGB", pad: int = PADDED, **options: Any
) -> bytes:
    """Return a JPEG of a gradient, ``pad`` bytes long."""
    data = _encode(_gradient(size, mode), "JPEG", **options)
    gap = pad - len(data) - 4
    if gap < 0:
        return data
    return data[:2] + b"\xff\xfe" + struct.pack(">H", gap + 2) + bytes(gap) + data[2:]


def png(size: tuple[int, int] = (64, 48), mode: str = "RGB", pad: int = PADDED) -> bytes:
    """Return a PNG of a gradient, ``pad`` bytes long where it is shorter."""
    data = _encode(_gradient(size, mode), "PNG")
    gap = pad - len(data) - 12
    return data if gap < 0 else data[:-12] + _chunk(b"tEXt", b"k\0".ljust(gap, b"x")) + data[-12:]


def claims(width: int, height: int) -> bytes:
    """Return the header of a PNG of that size, without pixels."""
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n" + header + _chunk(b"IDAT", zlib.compress(b"")) + _chunk(b"IEND", b"")
    )


def animation() -> bytes:
    """Return an animated WebP."""
    frames = [_gradient((64, 48), "RGB"), Image.new("RGB", (64, 48), "red")]
    return _encode(frames[0], "WEBP", save_all=True, append_images=frames[1:])


def uniform() -> bytes:
    """Return a PNG of one colour."""
    return _encode(Image.new("RGB", (64, 48), "white"), "PNG")


def rotated() -> bytes:
    """Return a JPEG that is to be turned by its EXIF orientation."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return jpeg(exif=exif.tobytes())


def words(value: object) -> bytes:
    """Return a value as json."""
    return json.dumps(value).encode()


def link(name: str, target: str) -> tarfile.TarInfo:
    """Return a symbolic link as a member."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def fifo(name: str) -> tarfile.TarInfo:
    """Return a fifo as a member."""
    info = tarfile.TarInfo(name)
    info.type = tarfile.FIFOTYPE
    return info


def shown(findings: Iterable[Finding], folder: Path) -> str:
    """Return findings as text for a golden file, without the folder of the shards."""
    lines = []
    # Differs from one installation to the next.
    installer = install_packages("*").removesuffix("'*'")
    for finding in findings:
        rate = "" if finding.rate is None else f" ({finding.rate:.1%})"
        place = f"{finding.shard} {finding.key!a} {finding.offset}"
        lines += [
            f"{finding.code} {finding.severity} {place} x{finding.count}{rate} {', '.join(finding.readers)}"
        ]
        lines += ["  " + finding.message]
        if finding.repair is not None:
            safe = "$" if finding.repair.safe else "unsafe $"
            lines += [f"  {safe} {finding.repair.command.replace(installer, 'pip install ')}"]
            lines += [f"  # {finding.repair.note}"] if finding.repair.note else []
    return "".join(line.replace(f"{folder}/", "") + "\n" for line in lines)


def _gradient(size: tuple[int, int], mode: str) -> Image.Image:
    image = Image.linear_gradient("L").resize(size)
    if mode == "RGBA":
        return Image.merge("RGBA", (image, image, image, image))
    return image.convert(mode)


def _encode(image: Image.Image, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
