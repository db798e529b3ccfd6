"""What is asked of a reshard: sizes of shards, their order, and the parts of a split."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from wdsflow.memory.sizes import parse_size

Repeats = Literal["number", "refuse"]
HASHES = 1 << 64  # values of a key's hash
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GRID = re.compile(r"(\d{1,6})x(\d{1,6})")


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


class Part(NamedTuple):
    """A part of a split: samples whose key's hash is below ``end``, and not below that of the part before."""

    name: str  # "" for all samples
    end: int  # of HASHES


@dataclass(frozen=True)
class ReshardOptions:
    """All that decides the outputs, besides the inputs. ``checked`` makes one from what people write."""

    samples: int | None = None
    size: int | None = None  # bytes
    shards: int | None = None
    divisible_by: Grid | None = None
    shuffle: int | None = None
    split: str | None = None  # as written
    folds: int | None = None
    by_key: bool = False
    repeated_keys: Repeats = "number"
    parts: tuple[Part, ...] = (Part("", HASHES),)

    @property
    def scattered(self) -> bool:
        """Whether neighbours in an output come from anywhere in the inputs."""
        return self.shuffle is not None or self.by_key

    def flags(self) -> dict[str, Any]:
        """Return the options as the command line spells them."""
        return {
            "--samples": self.samples,
            "--size": self.size,
            "--shards": self.shards,
            "--divisible-by": self.divisible_by and str(self.divisible_by),
            "--shuffle": None if self.shuffle is None else str(self.shuffle),
            "--split": self.split,
            "--folds": self.folds,
            "--by-key": self.by_key,
            "--repeated-keys": self.repeated_keys,
        }


def checked(
    *,
    samples: int | None = None,
    size: int | str | None = None,
    shards: int | None = None,
    divisible_by: str | None = None,
    shuffle: int | None = None,
    split: str | None = None,
    folds: int | None = None,
    by_key: bool = False,
    repeated_keys: Repeats = "number",
) -> ReshardOptions:
    """Return options that fit together. Raises ValueError."""
    wanted = [
        name for name, value in (("--samples", samples), ("--size", size), ("--shards", shards)) if value is not None
    ]
    if len(wanted) > 1:
        raise ValueError(f"{wanted[0]} and {wanted[1]} both decide how large shards are: give one of them")
    if divisible_by is not None and wanted and wanted != ["--samples"]:
        raise ValueError(f"--divisible-by and {wanted[0]} both decide how many shards there are: give one of them")
    if shuffle is not None and by_key:
        raise ValueError("--shuffle and --by-key both decide the order: give one of them")
    if split is not None and folds is not None:
        raise ValueError("--split and --folds both decide the folders: give one of them")
    for name, value in (("--samples", samples), ("--shards", shards), ("--folds", folds)):
        if value is not None and value < 1 + (name == "--folds"):
            raise ValueError(f"{name} must be at least {1 + (name == '--folds')}, not {value}")
    most = parse_size(size) if size is not None else None
    if most is not None and most < 1:
        raise ValueError("--size must be at least 1 byte")
    if repeated_keys not in ("number", "refuse"):
        raise ValueError(f"--repeated-keys is number or refuse, not {repeated_keys!r}")
    grid = parse_grid(divisible_by, "--divisible-by") if divisible_by is not None else None
    parts = _split(split) if split is not None else _folds(folds) if folds is not None else (Part("", HASHES),)
    return ReshardOptions(samples, most, shards, grid, shuffle, split, folds, by_key, repeated_keys, parts)


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


def _split(text: str) -> tuple[Part, ...]:
    """Read ``train=0.9,val=0.1``; the order decides which hashes are whose."""
    parts: list[Part] = []
    total = Fraction(0)
    for each in text.split(","):
        name, _, number = (word.strip() for word in each.partition("="))
        share = _share(number)
        if not _NAME.fullmatch(name) or share is None:
            raise ValueError(f"--split {each} is not of the form NAME=SHARE, such as train=0.9")
        if name.lower() in {part.name.lower() for part in parts}:
            raise ValueError(f"--split names {name} twice")
        total += share
        parts.append(Part(name, int(total * HASHES)))
    if total > 1:
        raise ValueError(f"the shares of --split are {float(total):g} together: at most 1")
    return tuple(parts)


def _share(text: str) -> Fraction | None:
    try:
        share = Fraction(Decimal(text))
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return share if 0 < share <= 1 else None


def _folds(count: int) -> tuple[Part, ...]:
    return tuple(Part(f"fold-{fold}", -(-HASHES * (fold + 1) // count)) for fold in range(count))


def names_of_parts(flags: dict[str, Any]) -> Iterable[str]:
    """Return the names of the parts that some flags, as recorded, asked for. Raises ValueError."""
    split, folds = flags.get("--split"), flags.get("--folds")
    return [part.name for part in (_split(split) if split else _folds(folds) if folds else ())]
