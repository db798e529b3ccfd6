"""Small tars, written and read by Python's tarfile."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

JPEG = b"\xff\xd8\xff\xe0 no picture, but it starts like one"
Entry = tuple[str, bytes]


def tar_bytes(
    entries: Iterable[Entry | tarfile.TarInfo], form: int = tarfile.USTAR_FORMAT
) -> bytes:
    """Return a tar with these members; a TarInfo is added as it is, without contents."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, errors="surrogateescape") as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
                continue
            name, data = entry
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def write_tar(
    path: Path, entries: Iterable[Entry | tarfile.TarInfo], form: int = tarfile.USTAR_FORMAT
) -> Path:
    """Write a tar and return its path."""
    path.write_bytes(tar_bytes(entries, form))
    return path


def link(name: str, target: str, kind: bytes = tarfile.LNKTYPE) -> tarfile.TarInfo:
    """Return a hard link, or with ``tarfile.SYMTYPE`` a symbolic one."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def folder(name: str) -> tarfile.TarInfo:
    """Return a directory entry."""
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info


def read_tar(path: Path) -> list[Entry]:
    """Return names and contents of all regular members."""
    with tarfile.open(path, errors="surrogateescape") as tar:
        return [(info.name, tar.extractfile(info).read()) for info in tar if info.isreg()]


def names(path: Path) -> list[str]:
    """Return the names of all members."""
    return [name for name, _ in read_tar(path)]
