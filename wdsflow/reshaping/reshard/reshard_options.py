"""Options of a reshard: sizes of shards, their order, and the parts of a split."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Literal, NamedTuple

from wdsflow.memory.sizes import parse_size
from wdsflow.shards.thread_jobs import Begin
from wdsflow.text.options import OTHER, SAMPLES, allow_pipe_option, option, restart_option

Repeats = Literal["number", "refuse"]
HASHES = 1 << 64  # values of a key's hash
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GRID = re.compile(r"(\d{1,6})x(\d{1,6})")
_CONFLICTS = (
    ("how large shards are", ("samples", "size", "shards")),
    ("how many shards there are", ("divisible_by", "size")),
    ("how many shards there are", ("divisible_by", "shards")),
    ("the order", ("shuffle", "by_key")),
    ("the folders", ("split", "folds")),
)


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


USUAL_GRID = Grid(1, 4)  # OpenCLIP's defaults


class SplitPart(NamedTuple):
    """A part of a split: samples whose key's hash is below ``end``, and not below that of the part before."""

    name: str  # "" for all samples
    end: int  # of HASHES


@dataclass(frozen=True)
class ReshardOptions:
    """Everything besides the inputs that determines the outputs; ``checked`` makes it from ``ReshardRequest``."""

    samples: int | None = None
    size: int | None = None  # bytes
    shards: int | None = None
    divisible_by: Grid | None = None
    shuffle: int | None = None
    split: str | None = None  # as written
    folds: int | None = None
    by_key: bool = False
    repeated_keys: Repeats = "number"
    parts: tuple[SplitPart, ...] = (SplitPart("", HASHES),)

    @property
    def scattered(self) -> bool:
        """Whether neighbours in an output come from anywhere in the inputs."""
        return self.shuffle is not None or self.by_key

    def flags(self) -> dict[str, object]:
        """Return the options as on the command line."""
        spelled = {"divisible_by": self.divisible_by and str(self.divisible_by)}
        spelled["shuffle"] = None if self.shuffle is None else str(self.shuffle)
        return {_flag(name): spelled.get(name, value) for name, value in vars(self).items() if name != "parts"}


@dataclass(frozen=True, kw_only=True)
class ReshardRequest:
    """The arguments of a reshard. ``begin`` is called with a pass's number of shards; its result is called after each."""

    samples: int | None = option(None, "At most N samples in a shard; all shards equal.", metavar="N")
    size: int | str | None = option(None, "At most so many bytes in a shard, such as 1GB.", metavar="SIZE")
    shards: int | None = option(None, "N shards of equal size.", metavar="N")
    divisible_by: str | None = option(
        None,
        "A number of shards that all loader workers can share, such as 8x4: a multiple of 32.",
        metavar="RANKSxWORKERS",
    )
    shuffle: int | None = option(None, "Shuffle all samples; the same seed gives the same order.", metavar="SEED")

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


def checked(asked: ReshardRequest) -> ReshardOptions:
    """Return consistent options. Raises ValueError."""
    given = [name for name, value in vars(asked).items() if value is not None and value is not False]
    for what, names in _CONFLICTS:
        flags = [_flag(name) for name in names if name in given]
        if len(flags) > 1:
            raise ValueError(f"{flags[0]} and {flags[1]} both decide {what}: give one of them")
    for name, value, least in (("samples", asked.samples, 1), ("shards", asked.shards, 1), ("folds", asked.folds, 2)):
        if value is not None and value < least:
            raise ValueError(f"--{name} must be at least {least}, not {value}")
    most = None if asked.size is None else parse_size(asked.size)
    if most is not None and most < 1:
        raise ValueError("--size must be at least 1 byte")
    if asked.repeated_keys not in ("number", "refuse"):
        raise ValueError(f"--repeated-keys is number or refuse, not {asked.repeated_keys!r}")
    return ReshardOptions(
        samples=asked.samples,
        size=most,
        shards=asked.shards,
        divisible_by=None if asked.divisible_by is None else parse_grid(asked.divisible_by, "--divisible-by"),
        shuffle=asked.shuffle,
        split=asked.split,
        folds=asked.folds,
        by_key=asked.by_key,
        repeated_keys=asked.repeated_keys,
        parts=parts_of(asked.split, asked.folds),
    )


def parts_of(split: object, folds: object) -> tuple[SplitPart, ...]:
    """Return the parts of ``--split`` or ``--folds``; without them, a single part. Raises ValueError."""
    if isinstance(split, str):
        return tuple(_split(split))
    if isinstance(folds, int):
        return tuple(SplitPart(f"fold-{fold}", -(-HASHES * (fold + 1) // folds)) for fold in range(folds))
    return (SplitPart("", HASHES),)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def parse_grid(text: str, option: str) -> Grid:
    """Return ranks and workers. Raises ValueError, which names the option.

    >>> parse_grid("8x4", "--divisible-by").readers
    32
    """
    found = _GRID.fullmatch(text)
    grid = Grid(int(found[1]), int(found[2])) if found else Grid(0, 0)
    if not grid.readers:
        raise ValueError(f"{option} {text} is not of the form RANKSxWORKERS, such as 8x4")
    return grid


def _split(text: str) -> Iterable[SplitPart]:
    """Read ``train=0.9,val=0.1``; the order decides the range of hashes of each part."""
    names, total = set[str](), Fraction(0)
    for each in text.split(","):
        name, _, number = (word.strip() for word in each.partition("="))
        try:
            share = Fraction(Decimal(number))
        except (InvalidOperation, ValueError, OverflowError):
            share = Fraction(0)
        if not _NAME.fullmatch(name) or not 0 < share <= 1:
            raise ValueError(f"--split {each} is not of the form NAME=SHARE, such as train=0.9")
        if name.lower() in names:
            raise ValueError(f"--split names {name} twice")
        names.add(name.lower())
        total += share
        yield SplitPart(name, int(total * HASHES))
    if total > 1:
        raise ValueError(f"the shares of --split are {float(total):g} together: at most 1")
