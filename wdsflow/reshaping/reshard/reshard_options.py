"""Options of a reshard: sizes of shards, their order, and the parts of a split."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Literal, NamedTuple

from wdsflow.memory.sizes import parse_size
from wdsflow.shards.thread_jobs import Begin
from wdsflow.text.options import OTHER, SAMPLES, allow_pipe_option, option, restart_option

Repeats = Literal["number", "refuse"]
# The values of a key's hash.
HASHES = 1 << 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GRID = re.compile(r"(\d{1,6})x(\d{1,6})")
# What options decide, and the options of which only one may be given.
_CONFLICTS = (
    ("how large shards are", ("samples", "size", "shards")),
    ("how many shards there are", ("divisible_by", "size")),
    ("how many shards there are", ("divisible_by", "shards")),
    ("the order", ("shuffle", "by_key")),
    ("the folders", ("split", "folds")),
)
# The smallest values of options.
_LEAST = {"samples": 1, "shards": 1, "folds": 2}


class Grid(NamedTuple):
    """Ranks of a training run, and loader workers of each."""

    ranks: int
    workers: int

    @property
    def readers(self) -> int:
        """The number of concurrent readers."""
        return self.ranks * self.workers

    def __str__(self) -> str:
        return f"{self.ranks}x{self.workers}"


# OpenCLIP's defaults.
USUAL_GRID = Grid(1, 4)


class SplitPart(NamedTuple):
    """A part of a split: samples with a key hash below ``end``.

    The hashes below the ``end`` of the part before it belong to that part.

    Attributes:
        name: its folder; "" for all samples.
        end: at most ``HASHES``.
    """

    name: str
    end: int


@dataclass(frozen=True)
class ReshardOptions:
    """All options that affect the outputs, apart from the inputs.

    ``checked_options`` makes it from a ``ReshardRequest``.

    Attributes:
        size: in bytes.
        split: as on the command line.
        parts: those of ``split`` or ``folds``.
    """

    samples: int | None = None
    size: int | None = None
    shards: int | None = None
    divisible_by: Grid | None = None
    shuffle: int | None = None
    split: str | None = None
    folds: int | None = None
    by_key: bool = False
    repeated_keys: Repeats = "number"
    parts: tuple[SplitPart, ...] = (SplitPart("", HASHES),)

    @property
    def is_scattered(self) -> bool:
        """Whether neighbours in an output come from anywhere in the inputs."""
        return self.shuffle is not None or self.by_key

    def flags(self) -> dict[str, object]:
        """Return the options as on the command line."""
        flags: dict[str, object] = {}
        for name, value in vars(self).items():
            if name == "parts":
                continue
            is_text = name in ("divisible_by", "shuffle") and value is not None
            flags[_flag(name)] = str(value) if is_text else value
        return flags


@dataclass(frozen=True, kw_only=True)
class ReshardRequest:
    """The arguments of a reshard.

    ``begin`` is called with the number of shards of a pass. Its result is called after each shard.
    """

    samples: int | None = option(
        None, "At most N samples in a shard; all shards equal.", metavar="N"
    )
    size: int | str | None = option(
        None, "At most so many bytes in a shard, such as 1GB.", metavar="SIZE"
    )
    shards: int | None = option(None, "N shards of equal size.", metavar="N")
    divisible_by: str | None = option(
        None,
        "A number of shards that all loader workers can share, such as 8x4: a multiple of 32.",
        metavar="RANKSxWORKERS",
    )
    shuffle: int | None = option(
        None, "Shuffle all samples; the same seed gives the same order.", metavar="SEED"
    )
    split: str | None = option(
        None,
        "Parts in folders of their own, by a hash of the key: train=0.9,val=0.1; --shards counts for each.",
        metavar="NAME=SHARE,...",
    )
    folds: int | None = option(None, "K parts of equal share: fold-0 and so on.", metavar="K")
    by_key: bool = option(False, "Order samples by key.")
    repeated_keys: Repeats = option(
        "number",
        "A sample whose key is in the shard already becomes KEY-2 (number), or nothing is written (refuse).",
        panel=SAMPLES,
    )
    restart: bool = restart_option()
    jobs: int = option(2, "Shards read or written at once.", metavar="N", least=1)
    even_for: str | None = option(
        None,
        "Report how even an epoch is for these; by default those of --divisible-by, otherwise 1x4.",
        metavar="RANKSxWORKERS",
        panel=OTHER,
    )
    allow_pipe: bool = allow_pipe_option(OTHER)
    begin: Begin | None = None


def checked_options(request: ReshardRequest) -> ReshardOptions:
    """Return consistent options. Raises ValueError."""
    values = vars(request)
    given = {name for name, value in values.items() if value is not None and value is not False}
    for decision, names in _CONFLICTS:
        flags = [_flag(name) for name in names if name in given]
        if len(flags) > 1:
            raise ValueError(f"{flags[0]} and {flags[1]} both decide {decision}: give one of them")
    for name, least in _LEAST.items():
        if name in given and values[name] < least:
            raise ValueError(f"--{name} must be at least {least}, not {values[name]}")
    size = None if request.size is None else parse_size(request.size)
    if size is not None and size < 1:
        raise ValueError("--size must be at least 1 byte")
    if request.repeated_keys not in ("number", "refuse"):
        raise ValueError(f"--repeated-keys is number or refuse, not {request.repeated_keys!r}")
    divisible_by = (
        None if request.divisible_by is None else parse_grid(request.divisible_by, "--divisible-by")
    )
    return ReshardOptions(
        samples=request.samples,
        size=size,
        shards=request.shards,
        divisible_by=divisible_by,
        shuffle=request.shuffle,
        split=request.split,
        folds=request.folds,
        by_key=request.by_key,
        repeated_keys=request.repeated_keys,
        parts=parts_of(request.split, request.folds),
    )


def parts_of(split: object, folds: object) -> tuple[SplitPart, ...]:
    """Return the parts of ``--split`` or ``--folds``; without them, a single part.

    Raises ValueError.
    """
    if isinstance(split, str):
        return tuple(_parts_of_split(split))
    if isinstance(folds, int):
        # Rounded up, so that the last fold ends at HASHES.
        ends = [-(-HASHES * (fold + 1) // folds) for fold in range(folds)]
        return tuple(SplitPart(f"fold-{fold}", end) for fold, end in enumerate(ends))
    return (SplitPart("", HASHES),)


def parse_grid(text: str, option: str) -> Grid:
    """Return ranks and workers. Raises ValueError, which names the option.

    >>> parse_grid("8x4", "--divisible-by").readers
    32
    """
    match = _GRID.fullmatch(text)
    grid = Grid(int(match[1]), int(match[2])) if match else Grid(0, 0)
    if not grid.readers:
        raise ValueError(f"{option} {text} is not of the form RANKSxWORKERS, such as 8x4")
    return grid


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _parts_of_split(split: str) -> Iterator[SplitPart]:
    """Read ``train=0.9,val=0.1``; the order decides the range of hashes of each part."""
    names: set[str] = set()
    total = Fraction(0)
    for entry in split.split(","):
        name, _, number = entry.partition("=")
        name = name.strip()
        share = _share(number.strip())
        if not _NAME.fullmatch(name) or not 0 < share <= 1:
            raise ValueError(f"--split {entry} is not of the form NAME=SHARE, such as train=0.9")
        # File systems may not tell upper case from lower case.
        if name.lower() in names:
            raise ValueError(f"--split names {name} twice")
        names.add(name.lower())
        total += share
        yield SplitPart(name, int(total * HASHES))
    if total > 1:
        raise ValueError(f"the shares of --split are {float(total):g} together: at most 1")


def _share(number: str) -> Fraction:
    """Return the exact value of a decimal number; 0 if it is none."""
    try:
        return Fraction(Decimal(number))
    except (InvalidOperation, ValueError, OverflowError):
        return Fraction(0)
