"""The options of a validation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from wdsflow.engines.base import EngineName
from wdsflow.joining.join_options import JoinOptions, join_words
from wdsflow.text.options import (
    CHECKS,
    MACHINES,
    OTHER,
    SAMPLES,
    address_option,
    allow_pipe_option,
    option,
    processes_option,
    split_commas,
)

from .verdicts.check_result import Check

LOADER_CHECKS: tuple[Check, ...] = get_args(Check)
CheckLevel = Literal["auto", "names", "headers", "full"]
Progress = Callable[[int], Callable[[object], None] | None]


def parse_ignored_codes(values: Sequence[str]) -> dict[str, str]:
    """Read ``CODE``, ``CODE,CODE`` and ``CODE=reason``.

    >>> parse_ignored_codes(["W1,W2", "F3=two sources, both fine"])
    {'W1': '', 'W2': '', 'F3': 'two sources, both fine'}
    """
    ignored = {}
    for value in values:
        codes, _, reason = value.partition("=")
        ignored.update(dict.fromkeys(split_commas([codes]), reason.strip().strip("\"'")))
    return ignored


def parse_checks(values: Sequence[str]) -> tuple[Check, ...]:
    """Read ``resume,fork``. Raises ValueError for another name.

    >>> parse_checks(["resume,fork", "fork"])
    ('resume', 'fork')
    """
    names = tuple(dict.fromkeys(split_commas(values)))
    for name in names:
        if name not in LOADER_CHECKS:
            raise ValueError(
                f"{name} is no check of a loader: write --check {','.join(LOADER_CHECKS)}, or some of these"
            )
    return cast("tuple[Check, ...]", names)


def parse_share(text: str) -> float:
    """Return a share such as "5%" or "0.05" as a number. Raises ValueError."""
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"{text} is not a share: write 5% or 0.05")
    return value


def parse_percent(text: str) -> float:
    """Return a share such as "99", "99%" or "0.99" as a number. Raises ValueError.

    >>> parse_percent("99"), parse_percent("95%"), parse_percent("0.5")
    (0.99, 0.95, 0.5)
    """
    return parse_share(text if "%" in text or text.startswith(("0", ".")) else f"{text}%")


@dataclass(frozen=True)
class CheckOptions(JoinOptions):
    """The options of a validation, with those of a table that is joined.

    Attributes:
        arguments: command line of open_clip_train; turns on the forecast for ``world_size`` ranks.
        progress: called with the number of shards; it returns a function that is called after each
            shard.
    """

    readers: Sequence[str] = option(
        ("open-clip",),
        "Reader to judge for; repeatable. open-clip (the installed version), open-clip-3.3, open-clip-4, webdataset-1, webdataset-0.2, datasets, datasets-tables, ray-data, timm, energon, energon-crude.",
        "--for",
        metavar="READER",
    )
    _: KW_ONLY
    pipeline: str | None = option(
        None,
        "Run your own loader over the shards, and judge by what came out: module:object or path/to/train.py:make. Readers of --for are judged only if named.",
        metavar="CODE",
    )
    samples: int | None = option(
        None,
        "With --pipeline: samples that are read, however long it takes. By default 10,000, or those of a minute; all with --level full.",
        metavar="N",
        panel=CHECKS,
        least=1,
    )
    check: Sequence[str] = option(
        (),
        "Ask of the loader of --pipeline: resume, fork, workers, or several with commas. Runs it instead of counting its samples.",
        metavar="NAMES",
        panel=CHECKS,
        parse=parse_checks,
    )
    level: CheckLevel = option(
        "auto",
        "names: read tar headers only. headers: decode everything but images, of which only suspicious ones. full: decode everything; exact. auto: full for files of up to 64 MB together, otherwise headers.",
        metavar="LEVEL",
    )
    select: Sequence[str] = option(
        (),
        "Run only these rules: codes or their first letters, such as W001,F.",
        metavar="CODES",
        parse=split_commas,
    )
    ignore: Mapping[str, str] | None = option(
        None,
        'Accept findings of these rules: CODES, or CODE="reason" to show why.',
        metavar="CODES",
        parse=parse_ignored_codes,
    )
    baseline: str | Path | None = option(
        None, "Findings in this file are known and do not fail the run.", metavar="FILE"
    )
    max_loss: float = option(
        0.05,
        "Share of samples that may be lost, such as 5% or 0.05.",
        metavar="SHARE",
        parse=parse_share,
    )
    jobs: int | None = processes_option()
    engine: EngineName = option(
        "local",
        "local: processes on this machine. ray: a Ray cluster (needs the extra ray). All its nodes must see shards that are files under the same paths.",
        metavar="ENGINE",
        panel=MACHINES,
    )
    address: str | None = address_option()
    caption: str | None = option(
        None,
        'With --join: where captions are, as for wdsflow train: "txt|json:alt|join:COLUMN". They are tried in order; join:COLUMN is a column of the table.',
        metavar="FIELDS",
        panel=SAMPLES,
    )
    world_size: int = option(1, "Number of ranks (GPUs) that will train.", metavar="N", least=1)
    allow_pipe: bool = allow_pipe_option(OTHER)
    arguments: Sequence[str] | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        """Accept a string for one name, or for several names separated by commas.

        Without this, a string would count as a sequence of characters.
        """
        super().__post_init__()
        if self.caption is not None and self.join is None:
            raise ValueError(
                "caption (--caption) is for wdsflow's feed, which joins a table: name it with join (--join); other readers have flags for captions, such as --text-key after --"
            )
        for name in ("readers", "select", "check"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, tuple(split_commas([value])))

    def join_words(self, changed: Mapping[str, object] | None = None) -> list[str]:
        """Return the options of the join as words of a command, some of them changed."""
        words = [*join_words({**self.changed_join(), **(changed or {})})]
        if self.caption is not None:
            words += ["--caption", self.caption]
        return words


class WrongSampling(ValueError):
    """Random samples cannot be drawn with these options, or from these shards."""


@dataclass(frozen=True)
class SampledOptions:
    """A check of random samples."""

    confidence: float | None = option(
        None,
        "Read random samples only, until it is proven, with this confidence (such as 99%), that at most --max-loss are lost.",
        metavar="PERCENT",
        panel=CHECKS,
        parse=parse_percent,
    )
    seed: int = option(0, "With --confidence: other random samples.", metavar="N", panel=CHECKS)
