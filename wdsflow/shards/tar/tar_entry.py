"""One entry of a tar, its extended headers included, and what tarfile makes of it."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from .tar_header import (
    BLOCK,
    LIMIT,
    LONGEST,
    REGULAR,
    SUPPORTED,
    TIMES,
    WANTED,
    ZEROS,
    BadHeader,
    Header,
    Read,
    RefusedRecord,
    is_foreign,
    padded,
    parse_header,
    read_records,
    refuses_negative,
    text,
)

Kind = Literal["file", "sparse", "link", "directory", "special"]
_MOST_MAPS, _MORE = 10_000, 504  # blocks of an old map of a sparse member; the byte that says that one follows
MAX_CHAIN = 300  # extended headers of one member: about where tarfile's recursion ends

_KINDS: dict[bytes, Kind] = {b"1": "link", b"2": "link", b"5": "directory"}
_SIZES = frozenset(("GNU.sparse.size", "GNU.sparse.realsize"))


class Ending(Exception):
    """No entry can be read here.

    ``why``: "end" (zero block), "eof" (nothing left), "cut" (part of a header), "bad" (no header), "error"
    (tarfile raises). ``resume``: where a search for further headers may start.
    """

    def __init__(self, why: Literal["end", "eof", "cut", "bad", "error"], offset: int, detail: str, resume: int):
        super().__init__(detail)
        self.why, self.offset, self.detail, self.resume = why, offset, detail, resume


class Entry(NamedTuple):
    """One entry as tarfile delivers it."""

    name: str
    size: int  # as tarfile says; may be negative
    kind: Kind
    header: int  # first byte that belongs to it
    data: int
    next: int  # where tarfile looks for the next header
    tell: int  # where a stream reader stands before it reads the data
    only_times: bool  # the extended header tells nothing but times
    depth: int  # number of extended headers
    foreign: bool  # parsers that know no extended headers find another name or size


class _Extension(NamedTuple):
    """An extended header."""

    type: bytes
    body: bytes
    values: dict[str, str]  # the global records and its own; empty for GNU long names


class _State:
    """What is being put together while the headers of one entry are read."""

    def __init__(self, read: Read, at: int):
        self.read, self.at = read, at
        self.budget = LIMIT
        self.name, self.size, self.type = "", 0, b"0"
        self.data = self.next = at
        self.sparse = False
        self.foreign = False

    @property
    def skips(self) -> bool:
        """Return whether data follow that have to be skipped."""
        return self.type in REGULAR or self.type not in SUPPORTED

    def header(self, *, first: bool) -> Header:
        """Read the next header. Raises ``Ending`` and ``BadHeader``."""
        offset = self.at
        block = self.read(offset, BLOCK)
        if len(block) < BLOCK:
            self.at += len(block)
            raise Ending("cut" if block else "eof", offset, "the file ends inside a header", self.at)
        if block == ZEROS:
            raise Ending("end", offset, "", offset)
        try:
            found = parse_header(block, first=first)
            self.foreign = self.foreign or is_foreign(block)
        finally:
            self.at += BLOCK
        return found

    def body(self, header: Header) -> bytes:
        """Read the contents of an extended header. Raises ``BadHeader`` and ``RefusedRecord``."""
        length = blocks(header.size)
        if length < 0:
            raise RefusedRecord(f"an extended header claims {header.size:,} bytes")
        if length > LONGEST:
            raise RefusedRecord(f"an extended header has {header.size:,} bytes; the limit is {LONGEST:,}")
        contents = self.read(self.at, length) if length else b""
        self.at += len(contents)
        self.budget -= len(contents)
        if self.budget < 0:
            raise RefusedRecord(f"extended headers of one member have more than {LIMIT:,} bytes")
        return contents

    def apply(self, values: dict[str, str]) -> None:
        """Let PAX records replace what the header says. Raises ``RefusedRecord``."""
        for keyword, value in values.items():
            self.foreign = self.foreign or keyword in WANTED
            if keyword == "GNU.sparse.name":
                self.name = value
            elif keyword == "path":
                self.name = value.rstrip("/")
            elif keyword == "size" or keyword in _SIZES:
                try:
                    self.size = int(value)
                except ValueError:
                    if keyword in _SIZES:
                        raise RefusedRecord("the size of a sparse member cannot be read") from None
                    self.size = 0


def blocks(size: int) -> int:
    """Round up to whole blocks. Raises ``BadHeader`` for negative sizes if this Python's tarfile does."""
    if size < 0 and refuses_negative():
        raise BadHeader("a size is negative")
    return padded(size)


def read_entry(read: Read, start: int, shared: dict[str, str]) -> Entry:
    """Read the entry whose first header is at ``start``; ``shared`` holds global PAX records and is updated.

    Raises ``Ending``.
    """
    state = _State(read, start)
    chain: list[_Extension] = []
    depth = 0
    here, own = start, None
    try:
        while True:
            here = state.at
            header = state.header(first=not depth)
            if header.type not in (b"L", b"K", b"x", b"g", b"X"):
                break
            if depth == MAX_CHAIN:
                raise RefusedRecord("too many extended headers in a row")
            chain.append(_extension(state, header, shared))
            if header.type != b"g" and own is None:
                own = here
            depth += 1
        _base(state, header, shared)
        for extension in reversed(chain):
            depth -= 1
            _unwind(state, extension)
    except Ending as end:
        if not depth:
            raise
        detail = end.detail or "an extended header without a member"
        raise Ending("error", start, detail, end.resume) from None
    except BadHeader as error:
        raise Ending("error" if depth else "bad", start, str(error), max(state.at, here + BLOCK)) from None
    except RefusedRecord as error:
        raise Ending("error", start, str(error), max(state.at, here + BLOCK)) from None
    return _entry(state, here if own is None else own, chain)


def _extension(state: _State, header: Header, shared: dict[str, str]) -> _Extension:
    body = state.body(header)
    if header.type in (b"L", b"K"):
        return _Extension(header.type, body, {})
    values = read_records(body)
    if header.type == b"g":
        shared.update(values)
        return _Extension(header.type, body, shared)
    return _Extension(header.type, body, {**shared, **values})


def _base(state: _State, header: Header, shared: dict[str, str]) -> None:
    state.name, state.size, state.type = header.name, header.size, header.type
    if header.sparse:
        state.sparse = True
        more, real = header.sparse
        blocks_left = _MOST_MAPS
        while more:
            block = state.read(state.at, BLOCK)
            state.at += len(block)
            blocks_left -= 1
            if len(block) < BLOCK or not blocks_left:
                raise RefusedRecord("the map of a sparse member is cut or too long")
            more = bool(block[_MORE])
        state.data = state.at
        state.next = state.data + blocks(header.size)
        state.size = real
        return
    state.data = state.next = state.at
    if state.skips:
        state.next += blocks(header.size)
    state.apply(shared)
    if state.type == b"5":
        state.name = state.name.rstrip("/")


def _unwind(state: _State, extension: _Extension) -> None:
    """Let an extended header change what stands after it."""
    if extension.type in (b"L", b"K"):
        if extension.type == b"L":
            state.foreign = True
            state.name = text(extension.body)
        if state.type == b"5":
            state.name = state.name.removesuffix("/")
        return
    state.sparse = state.sparse or _is_sparse(extension.values)
    if extension.type != b"g":
        state.apply(extension.values)
        if "size" in extension.values:
            state.next = state.data + (blocks(state.size) if state.skips else 0)


def _is_sparse(values: dict[str, str]) -> bool:
    """Return whether tarfile takes a map of the member from these records, or from its contents."""
    new = values.get("GNU.sparse.major") == "1" and values.get("GNU.sparse.minor") == "0"
    return new or "GNU.sparse.map" in values or "GNU.sparse.size" in values


def _entry(state: _State, header: int, chain: list[_Extension]) -> Entry:
    kind = _KINDS.get(state.type, "special")
    if state.type in REGULAR:
        kind = "sparse" if state.sparse else "file"
    only_times = len(chain) == 1 and bool(chain[0].values) and TIMES.issuperset(chain[0].values)
    where = header, state.data, state.next, state.at
    return Entry(state.name, state.size, kind, *where, only_times, len(chain), state.foreign)


CUT = "unexpected end of data"
BACK_TO_START = "a negative size leads back to the start, which tarfile takes for the end"

Reaches = Callable[[int], bool]  # whether the archive has that many bytes


def deliver(entry: Entry, reaches: Reaches, length: Callable[[], int]) -> tuple[bool, int]:
    """Say whether webdataset gets the whole contents, and the offset at which reading stands then.

    ``length`` says how many bytes the archive has; it is asked only where ``reaches`` said no.

    webdataset reads files only; for other kinds nothing is read and nothing can be lost.
    """
    if entry.kind == "sparse":  # its contents are not looked at
        return (True, entry.tell) if reaches(entry.next) else (False, length())
    if entry.kind != "file" or entry.size <= 0:
        return True, entry.tell
    end = entry.data + entry.size
    return (True, end) if reaches(end) else (False, length())


def following(entry: Entry, stands: int, reaches: Reaches) -> str:
    """Say why tarfile cannot go on to the next header; empty if it can."""
    if entry.next == stands:
        return ""
    if entry.next == 0:
        return BACK_TO_START
    if not reaches(entry.next):
        return CUT
    return "a size sends the reader backwards" if entry.next <= stands else ""
