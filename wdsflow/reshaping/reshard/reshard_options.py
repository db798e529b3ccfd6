"""What is asked of a reshard: sizes of shards, their order, and the parts of a split."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Literal, NamedTuple, TypedDict

from wdsflow.memory.sizes import parse_size

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
    """Ranks of a training, and loader workers of each."""

    ranks: int
    workers: int

    @property
    def readers(self) -> int:
        """How many read at a time."""
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
    """All that decides the outputs, besides the inputs, as ``checked`` makes it from ``ReshardWishes``."""

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
        """Return the options as the command line spells them."""
        spelled = {"divisible_by": self.divisible_by and str(self.divisible_by)}
        spelled["shuffle"] = None if self.shuffle is None else str(self.shuffle)
        return {_flag(name): spelled.get(name, value) for name, value in vars(self).items() if name != "parts"}


class ReshardWishes(TypedDict, total=False):
    """What people ask for; whatever is not given stays as it is.

    ``samples``: at most so many samples in a shard. ``size``: at most so many bytes in a shard, such as "1GB"; a larger
    sample is alone in one. ``shards``: so many shards, of each part. ``divisible_by``: "RANKSxWORKERS", a number of
    shards that all workers can share equally. ``shuffle``: the seed of a global shuffle. ``split``:
    "train=0.9,val=0.1", parts in folders of their own, by a hash of the key. ``folds``: so many parts of equal share,
    "fold-0" and so on. ``by_key``: order by key. ``repeated_keys``: "number", so that a sample whose key is in the
    shard already becomes "KEY-2", or "refuse".
    """

    samples: int | None
    size: int | str | None
    shards: int | None
    divisible_by: str | None
    shuffle: int | None
    split: str | None
    folds: int | None
    by_key: bool
    repeated_keys: Repeats


def checked(wishes: ReshardWishes) -> ReshardOptions:
    """Return options that fit together. Raises ValueError."""
    given = {name: value for name, value in wishes.items() if value is not None and value is not False}
    for what, names in _CONFLICTS:
        flags = [_flag(name) for name in names if name in given]
        if len(flags) > 1:
            raise ValueError(f"{flags[0]} and {flags[1]} both decide {what}: give one of them")
    for name, least in (("samples", 1), ("shards", 1), ("folds", 2)):
        value = given.get(name)
        if isinstance(value, int) and value < least:
            raise ValueError(f"--{name} must be at least {least}, not {value}")
    size, divisible_by = given.get("size"), given.get("divisible_by")
    most = parse_size(size) if isinstance(size, (int, str)) else None
    if most is not None and most < 1:
        raise ValueError("--size must be at least 1 byte")
    if (repeated := wishes.get("repeated_keys", "number")) not in ("number", "refuse"):
        raise ValueError(f"--repeated-keys is number or refuse, not {repeated!r}")
    return ReshardOptions(
        samples=wishes.get("samples"),
        size=most,
        shards=wishes.get("shards"),
        divisible_by=parse_grid(str(divisible_by), "--divisible-by") if divisible_by is not None else None,
        shuffle=wishes.get("shuffle"),
        split=wishes.get("split"),
        folds=wishes.get("folds"),
        by_key=wishes.get("by_key", False),
        repeated_keys=repeated,
        parts=parts_of(given.get("split"), given.get("folds")),
    )


def parts_of(split: object, folds: object) -> tuple[SplitPart, ...]:
    """Return the parts that ``--split`` or ``--folds`` asks for, as given; without them all is one. Raises ValueError."""
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
    """Read ``train=0.9,val=0.1``; the order decides which hashes are whose."""
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
