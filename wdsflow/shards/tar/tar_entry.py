"""One entry of a tar, its extended headers included, as tarfile reads it."""

from typing import Literal, NamedTuple

from .tar_header import (
    BLOCK,
    LIMIT,
    LONGEST,
    REGULAR,
    SUPPORTED,
    TIMES,
    ZEROS,
    BadHeader,
    Header,
    Read,
    RefusedRecord,
    decode_text,
    padded,
    parse_header,
    read_records,
    refuses_negative,
)

Kind = Literal["file", "sparse", "link", "directory", "special"]
# Blocks of an old map of a sparse member; the byte that announces another one.
_MOST_MAPS, _MORE = 10_000, 504
# Extended headers of one member: about where tarfile's recursion ends.
MAX_CHAIN = 300

_KINDS: dict[bytes, Kind] = {b"1": "link", b"2": "link", b"5": "directory"}
_SIZES = frozenset(("GNU.sparse.size", "GNU.sparse.realsize"))


class NoEntry(Exception):
    """No entry can be read here.

    ``why``: "end" (zero block), "eof" (nothing left), "cut" (part of a header), "bad" (no header),
    "error" (tarfile raises). ``resume``: where a search for further headers may start.
    """

    def __init__(
        self,
        why: Literal["end", "eof", "cut", "bad", "error"],
        offset: int,
        detail: str,
        resume: int,
    ):
        super().__init__(detail)
        self.why, self.offset, self.detail, self.resume = why, offset, detail, resume


class Entry(NamedTuple):
    """One entry as tarfile delivers it."""

    name: str
    # As in tarfile; may be negative.
    size: int
    kind: Kind
    # First byte that belongs to it.
    header: int
    data: int
    # Where tarfile looks for the next header.
    next: int
    # Position of a stream reader before it reads the data.
    tell: int
    # The extended header has only times.
    only_times: bool
    # Number of extended headers.
    depth: int


class _Extension(NamedTuple):
    type: bytes
    body: bytes
    # The global records and its own; empty for GNU long names.
    values: dict[str, str]


def round_to_blocks(size: int) -> int:
    """Round up to whole blocks.

    Raises ``BadHeader`` for negative sizes if this Python's tarfile does.
    """
    if size < 0 and refuses_negative():
        raise BadHeader("a size is negative")
    return padded(size)


class _EntryHeaders:
    """The state while the headers of one entry are read.

    Methods raise ``BadHeader`` and ``RefusedRecord``.
    """

    def __init__(self, read: Read, at: int, shared: dict[str, str]):
        self.read, self.at, self.shared = read, at, shared
        self.budget = LIMIT
        self.name, self.size, self.type = "", 0, b"0"
        self.data = self.next = at
        self.sparse = False

    def blocks_of_data(self, size: int) -> int:
        """Return the bytes that follow and have to be skipped."""
        return round_to_blocks(size) if self.type in REGULAR or self.type not in SUPPORTED else 0

    def header(self, *, first: bool) -> Header:
        """Read the next header. Raises ``NoEntry``, too."""
        offset = self.at
        block = self.read(offset, BLOCK)
        if len(block) < BLOCK:
            self.at += len(block)
            raise NoEntry(
                "cut" if block else "eof", offset, "the file ends inside a header", self.at
            )
        if block == ZEROS:
            raise NoEntry("end", offset, "", offset)
        try:
            return parse_header(block, first=first)
        finally:
            self.at += BLOCK

    def extension(self, header: Header) -> _Extension:
        length = round_to_blocks(header.size)
        if length < 0:
            raise RefusedRecord(f"an extended header claims {header.size:,} bytes")
        if length > LONGEST:
            raise RefusedRecord(
                f"an extended header has {header.size:,} bytes; the limit is {LONGEST:,}"
            )
        body = self.read(self.at, length) if length else b""
        self.at += len(body)
        self.budget -= len(body)
        if self.budget < 0:
            raise RefusedRecord(f"extended headers of one member have more than {LIMIT:,} bytes")
        if header.type in (b"L", b"K"):
            return _Extension(header.type, body, {})
        values = read_records(body)
        if header.type == b"g":
            self.shared.update(values)
            return _Extension(header.type, body, self.shared)
        return _Extension(header.type, body, {**self.shared, **values})

    def member(self, header: Header) -> None:
        """Take the last header, that of the member itself."""
        self.name, self.size, self.type = header.name, header.size, header.type
        if header.sparse:
            self.sparse = True
            more, self.size = header.sparse
            blocks_left = _MOST_MAPS
            while more:
                block = self.read(self.at, BLOCK)
                self.at += len(block)
                blocks_left -= 1
                if len(block) < BLOCK or not blocks_left:
                    raise RefusedRecord("the map of a sparse member is cut or too long")
                more = bool(block[_MORE])
            self.data = self.at
            self.next = self.data + round_to_blocks(header.size)
            return
        self.data = self.at
        self.next = self.at + self.blocks_of_data(header.size)
        self.apply(self.shared)
        if self.type == b"5":
            self.name = self.name.rstrip("/")

    def unwind(self, extension: _Extension) -> None:
        """Apply an extended header to the entry after it."""
        values = extension.values
        if extension.type in (b"L", b"K"):
            if extension.type == b"L":
                self.name = decode_text(extension.body)
            if self.type == b"5":
                self.name = self.name.removesuffix("/")
            return
        # tarfile takes a map of the member from these records, or from its contents.
        new = values.get("GNU.sparse.major") == "1" and values.get("GNU.sparse.minor") == "0"
        self.sparse = (
            self.sparse or new or "GNU.sparse.map" in values or "GNU.sparse.size" in values
        )
        # tarfile reads it all the same.
        if self.type not in REGULAR and "GNU.sparse.map" in values:
            try:
                list(map(int, values["GNU.sparse.map"].split(",")))
            except ValueError:
                raise RefusedRecord("the map of a sparse member cannot be read") from None
        if extension.type != b"g":
            self.apply(values)
            if "size" in values:
                self.next = self.data + self.blocks_of_data(self.size)

    def apply(self, values: dict[str, str]) -> None:
        """Let PAX records replace values of the header."""
        for keyword, value in values.items():
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


def read_entry(read: Read, start: int, shared: dict[str, str]) -> Entry:
    """Read the entry whose first header is at ``start``.

    ``shared`` holds global PAX records and is updated.

    Raises ``NoEntry``.
    """
    state = _EntryHeaders(read, start, shared)
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
            chain.append(state.extension(header))
            if header.type != b"g" and own is None:
                own = here
            depth += 1
        state.member(header)
        for extension in reversed(chain):
            depth -= 1
            state.unwind(extension)
    except NoEntry as end:
        if not depth:
            raise
        detail = end.detail or "an extended header without a member"
        raise NoEntry("error", start, detail, end.resume) from None
    except (BadHeader, RefusedRecord) as error:
        why: Literal["error", "bad"] = (
            "error" if depth or isinstance(error, RefusedRecord) else "bad"
        )
        raise NoEntry(why, start, str(error), max(state.at, here + BLOCK)) from None
    kind = _KINDS.get(state.type, "special")
    if state.type in REGULAR:
        kind = "sparse" if state.sparse else "file"
    only_times = len(chain) == 1 and bool(chain[0].values) and TIMES.issuperset(chain[0].values)
    where = here if own is None else own, state.data, state.next, state.at
    return Entry(state.name, state.size, kind, *where, only_times, len(chain))
