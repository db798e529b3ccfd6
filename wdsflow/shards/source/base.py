"""Bytes of a shard, regardless of place and compression."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from wdsflow.shards.shard import PIPE, Shard
from wdsflow.text.secrets import redact

Trouble = Literal["missing", "denied", "io", "needs-library", "refused"]
# Bytes that tarfile reads at a time; they matter where a compressed stream is damaged.
FIRST, NEXT = 512, 10_240
# Bytes after the latest request that a forward source can still give.
HISTORY = 1 << 20
# First byte, byte after the last.
Range = tuple[int, int]
# Of a tar: a range of a source, or new bytes.
Piece = Range | bytes
# Bytes of a tar's blocks.
_BLOCK = 512
_HIDDEN_USER = re.compile(r"(?<=://)\*\*\*@")
_HIDDEN_SIGNATURE = re.compile(
    r"[?&](X-Amz-Signature|X-Goog-Signature|Signature|sig)=\*\*\*$", re.IGNORECASE
)
_COMMIT = re.compile(r"^(hf://[^@]+)@[0-9a-f]{40}(?=/)")


class SourceError(OSError):
    """A shard that cannot be opened or read.

    ``kind`` is the reason. ``fix`` is a command that helps, "" if none is known.
    """

    def __init__(self, kind: Trouble, detail: str, fix: str = ""):
        # Libraries name urls in their exceptions.
        detail = redact(detail)
        super().__init__(f"{detail}: {fix}" if fix else detail)
        self.kind: Trouble = kind
        self.detail, self.fix = detail, fix

    def __reduce__(self) -> tuple[object, ...]:
        return _same_error, (type(self), self.kind, self.detail, self.fix)


class NoTarError(SourceError):
    """A shard without a member that can be read: it is empty, or no tar."""

    def __init__(self, detail: str) -> None:
        super().__init__("io", detail)


class SourceChangedError(SourceError):
    """A file that changed after it was opened: its bytes may be of two versions."""

    def __init__(self, how: str = "") -> None:
        detail = "it changed while it was read"
        if how:
            detail += f": {how}"
        super().__init__("io", detail)

    @staticmethod
    def short(end: int, missing: int) -> "SourceChangedError":
        """Return the error of a source that has fewer bytes than its headers promised."""
        return SourceChangedError(f"it ends at byte {end:,}, {missing:,} too early")


def _same_error(
    kind_of_error: type[SourceError], kind: Trouble, detail: str, fix: str
) -> SourceError:
    """Return the error of another process."""
    error = kind_of_error.__new__(kind_of_error)
    SourceError.__init__(error, kind, detail, fix)
    return error


class StreamFault(NamedTuple):
    """A fault of a compressed stream, found by its checksums or by unpacking it."""

    # Bytes of the unpacked tar before it, which checksums prove right.
    trusted: int
    detail: str

    def __str__(self) -> str:
        trusted = "none of its bytes can be trusted"
        if self.trusted:
            trusted = f"its bytes are trusted up to byte {self.trusted:,}"
        return f"{self.detail}: {trusted}"


def read_fully(fd: int, size: int, offset: int) -> bytes:
    """Return ``size`` bytes at an offset, or fewer at the end of the file. Raises OSError."""
    data = os.pread(fd, size, offset)
    while 0 < len(data) < size:
        more = os.pread(fd, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


class Source:
    """Random or forward access to the bytes of one tar. Closes as a context manager."""

    url: Shard
    # Bytes as stored.
    size: int | None = None
    compression: str | None = None
    # Bytes of the tar, where known.
    length: int | None = None
    # As stored.
    bytes_read: int = 0
    # Why it ends before its time.
    damage: str | None = None
    # Its compressed stream ends too early.
    is_truncated: bool = False
    # Of its compressed stream; all of it has to be read first, see ``drain``.
    fault: StreamFault | None = None
    # A stream reader gets an exception at that end, rather than an end of file.
    raises_at_end: bool = False
    # Any offset can be read at any time; otherwise only onwards, see ``HISTORY``.
    is_seekable: bool = True
    # Of a plain local file.
    fd: int = -1
    # A temporary file with the bytes of a shard that can only be read forward.
    is_temporary_copy: bool = False
    # Without ``fd``, but on this machine: short reads cost little.
    has_cheap_reads: bool = False
    # Of a shard of a server: the path of a file of this machine that has the same bytes, if there
    # is one that other processes may read, too.
    stored_at: str = ""
    # That path, while the file is still being written.
    stored_later_at: str = ""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the uncompressed tar; fewer at its end. Raises ``SourceError``."""
        raise NotImplementedError

    def reaches(self, end: int) -> bool:
        """Return whether the tar has at least ``end`` bytes."""
        if self.length is not None:
            return end <= self.length
        return end <= 0 or bool(self.read_at(end - 1, 1))

    def read_exactly(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes. Raises SourceChangedError if there are fewer, ``SourceError``."""
        data = self.read_at(offset, size)
        if len(data) != size:
            raise SourceChangedError.short(offset + len(data), size - len(data))
        return data

    def parts(self, start: int, stop: int) -> Iterator[tuple["Source", Piece]]:
        """Yield the parts of a range: new bytes, and ranges of sources.

        Each source is open until the next part.

        If a tar lacks the padding of its last member, that follows. Raises SourceChangedError if it
        lacks more.
        """
        end = stop if self.length is None else min(stop, self.length)
        if start < end:
            yield from self.parts_inside(start, end)
        if end < stop:
            yield self, self.padding(end, stop)[max(0, start - end) :]

    def parts_inside(self, start: int, stop: int) -> Iterator[tuple["Source", Piece]]:
        """Yield the parts of a range inside the tar."""
        yield self, (start, stop)

    def read_parts(self, start: int, stop: int) -> bytes:
        """Return the bytes that ``parts`` yields."""
        contents: list[bytes] = []
        for origin, part in self.parts(start, stop):
            if isinstance(part, bytes):
                contents.append(part)
            else:
                begin, end = part
                contents.append(origin.read_exactly(begin, end - begin))
        return b"".join(contents)

    @staticmethod
    def padding(end: int, wanted: int) -> bytes:
        """Return the zeros missing from a tar that ends within its last padding.

        Raises SourceChangedError if more is missing.
        """
        if wanted - end >= _BLOCK:
            raise SourceChangedError.short(end, wanted - end)
        return bytes(wanted - end)

    def join_streams(self) -> None:
        """Read several compressed streams as one; called before anything is read."""

    def continue_past_end(self) -> bool:
        """Continue where stream readers end, if something follows; afterwards it can be read."""
        return False

    def drain(self) -> None:
        """Read a stream to its end, where its checksums are.

        After that, ``fault`` is final. Raises ``SourceError``.
        """

    def prefetch(self, offset: int, size: int) -> None:
        """Announce that these bytes will be read soon."""

    def advise_random_reads(self, on: bool) -> bool:
        """Announce reads far apart from each other; return whether that is sensible here."""
        return False

    def close(self) -> None:
        """Release all resources."""

    def __enter__(self) -> "Source":  # noqa: PYI034 - typing has Self from 3.11 on
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalSource(Source):
    """A plain file on this machine, read by ``os.pread``.

    It is not mapped into memory: a mapped file that shrinks would kill the process.
    """

    def __init__(self, url: Shard, fd: int) -> None:
        self.url, self.fd = url, fd
        self.length: int = os.fstat(fd).st_size
        self.size = self.length

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the tar; fewer at its end. Raises ``OSError``."""
        size = min(size, self.length - offset)
        data = read_fully(self.fd, size, offset) if size > 0 else b""
        self.bytes_read += len(data)
        return data

    def prefetch(self, offset: int, size: int) -> None:
        """Let the kernel fetch these bytes in the background."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fd, offset, size, os.POSIX_FADV_WILLNEED)

    def advise_random_reads(self, on: bool) -> bool:
        """Switch the kernel's reading ahead off, or on again."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM if on else os.POSIX_FADV_NORMAL)
        return True

    def close(self) -> None:
        """Close the file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def local_path(url: str) -> str | None:
    """Return the path of a local file that a user named, None for one that fsspec has to open.

    A ``Shard`` has been named already: see its ``path``.

    >>> local_path("file:///data/a.tar"), local_path("data/a.tar"), local_path("s3://bucket/a.tar")
    ('/data/a.tar', 'data/a.tar', None)
    """
    if url.startswith("file:"):
        path = url.removeprefix("file:")
        return re.sub("^//(localhost)?(?=/)", "", path)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", url):
        return None
    return os.path.expanduser(url)


def single_shard(text: str) -> Shard:
    """Return the one file, url or command that a user named: nothing in it stands for more."""
    if isinstance(text, Shard):
        return text
    if text.startswith(PIPE):
        return Shard.command(text)
    path = local_path(text)
    return Shard.url(text) if path is None else Shard.file(path)


def shown_url(url: str) -> str:
    """Return the text of the shard with a url that a library reports."""
    return single_shard(url) if url.startswith(PIPE) or "://" in url else url


def file_size(url: Shard) -> int:
    """Return the bytes of a shard on this machine; 0 for any other, and if the size is unknown."""
    try:
        return 0 if url.path is None else os.stat(url.path).st_size
    except OSError:
        return 0


def canonical_name(url: Shard) -> str:
    """Return the canonical name of a shard.

    For a local shard the absolute path without links, otherwise the url.

    >>> canonical_name(Shard.url(f"hf://datasets/org/set@{'0' * 40}/a.tar"))  # commits may have the same file
    'hf://datasets/org/set/a.tar'
    >>> canonical_name(Shard.url("https://user:word@host/a.tar?sig=x"))
    'https://host/a.tar'
    """
    if url.path is not None:
        return os.path.realpath(url.path)
    return _HIDDEN_SIGNATURE.sub("", _HIDDEN_USER.sub("", _COMMIT.sub(r"\1", url)))


def local_folder(out: str | os.PathLike[str]) -> Path:
    """Return the path of a folder or file to write to.

    Raises ValueError if the text is the url of something remote.

    Command lines convert arguments to paths, and ``s3://bucket`` to ``s3:/bucket``.
    """
    text = os.fspath(out)
    path = local_path(text)
    if path is None or re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path):
        url = redact(re.sub(":/(?!/)", "://", text, count=1))
        raise ValueError(f"{url} is not a local folder: write to one, and copy it from there")
    return Path(path)


@contextmanager
def as_source_errors() -> Iterator[None]:
    """Raise SourceError in place of an error of the system in the block."""
    try:
        yield
    except FileNotFoundError:
        raise SourceError("missing", "no such file") from None
    except PermissionError:
        raise SourceError("denied", "permission denied") from None
    except (OSError, ValueError) as error:
        raise SourceError("io", str(error)) from None


def open_file(path: str) -> int:
    """Open a regular file for reading. Raises ``SourceError``."""
    with as_source_errors():
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise SourceError("io", "is a folder")
    raise SourceError("refused", "is not a regular file")


class SourcePart(Source):
    """The bytes of a source from an offset on, after some others; the source stays open."""

    def __init__(self, whole: Source, start: int, before: bytes = b"") -> None:
        self._whole = whole
        self._before = before
        # Where the part would begin if it had no other bytes before it.
        self._start = start - len(before)
        self.url = whole.url
        self.is_seekable = whole.is_seekable
        self.length = None if whole.length is None else whole.length - self._start

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from an offset of the part; fewer at its end. Raises ``SourceError``."""
        head = self._before[offset : offset + size]
        rest = size - len(head)
        if rest <= 0:
            return head
        return head + self._whole.read_at(self._start + offset + len(head), rest)
