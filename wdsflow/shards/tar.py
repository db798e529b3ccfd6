"""Provisional: the author of this file replaces it whole."""

import tarfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from .source import Source


class Member(NamedTuple):
    """One member."""

    name: str
    size: int
    data: int
    header: int
    kind: str

    @property
    def end(self) -> int:
        """Padded end."""
        return self.data + (self.size + 511 & -512)


class Batch(NamedTuple):
    """Members."""

    members: list[Member]
    window: bytes
    base: int
    beyond: bool


class Stop(NamedTuple):
    """End."""

    kind: str
    offset: int
    detail: str


class Seen(NamedTuple):
    """Seen."""

    count: int
    offset: int
    name: str
    detail: str


class Walk:
    """Provisional."""

    def __init__(self, source: Source, *, contents: bool = False) -> None:
        self.source = source
        self.stop: Any = Stop("end", 0, "")
        self.seen: dict[str, Seen] = {}

    def __iter__(self) -> Iterator[Batch]:
        try:
            with open(self.source.url, "rb") as file:
                stream = tarfile.open(fileobj=file, mode="r|*")
                while True:
                    offset = stream.offset
                    info = stream.next()
                    if info is None:
                        break
                    kind = "file" if info.isreg() else "directory" if info.isdir() else "link"
                    if info.offset_data + info.size > (self.source.size or 0) and not self.source.compression:
                        self.stop = Stop("error", offset, "")
                        self.seen["tar.truncated-data"] = Seen(1, offset, info.name, "")
                        return
                    member = Member(info.name, info.size, info.offset_data, info.offset, kind)
                    if self.source.compression:
                        extracted = stream.extractfile(info) if info.isreg() else None
                        data = extracted.read() if extracted else b""
                        yield Batch([member], data, info.offset_data, False)
                    else:
                        yield Batch([member], b"", 0, False)
                    stream.members = []  # type: ignore[assignment]
        except (tarfile.TarError, OSError, EOFError) as error:
            self.stop = Stop("unreadable" if not locals().get("offset") else "error", 0, str(error))

    def read(self, member: Member, start: int = 0, size: int | None = None) -> bytes:
        """Read contents."""
        rest = member.size - start
        return self.source.read_at(member.data + start, rest if size is None else min(size, rest))
