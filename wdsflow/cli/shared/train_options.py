"""The options of ``wdsflow train``, each with its help."""

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from .nearest_paths import nearest_ledger
from .refusals import refuse
from .typed_command import CHECKS, MACHINES, MAIN, SAMPLES, Typed

if TYPE_CHECKING:
    from wdsflow.training.feed_options import FeedOptions


def both_or_none(ledger: str | None, where: str | None, typed: Typed, argv: Sequence[str]) -> dict[str, str | None]:
    """Return the two options by their names; refuse one without the other."""
    if (ledger is None) != (where is None):
        _refuse_one(ledger, where, typed, argv)
    return {"ledger": ledger, "where": where}


def _refuse_one(ledger: str | None, where: str | None, typed: Typed, argv: Sequence[str]) -> NoReturn:
    from wdsflow.filtering.deciding.ledger_subset import score_command
    from wdsflow.filtering.deciding.score_column import example_predicate
    from wdsflow.filtering.run_folder import Layout
    from wdsflow.validate.advice.invocation import train_data

    if ledger is not None:
        layout = Layout(Path(ledger))
        names = sorted(f"{path.stem}.tar" for path in (layout.inside / "ledger").glob("*.parquet"))
        found = example_predicate(layout, names)
        refuse(
            "--ledger needs --where, which says what to keep", f"such as: {typed.again(where=found)}" if found else ""
        )
    lacks = "--where needs --ledger: the folder with the scores"
    near = nearest_ledger(Path("scored").absolute())
    if near is not None:
        refuse(lacks, f"with the ledgers in {near}: {typed.again(ledger=near)}")
    try:
        score, new = score_command((train_data(argv) or "SHARDS").split("::"), "scored", where or "")
    except ValueError as error:
        refuse(str(error))
    refuse(lacks, f"to compute them: {score}", f"then: {typed.again(ledger=new)}")


def check_subset(options: "FeedOptions", typed: Typed, *, dry_run: bool) -> None:
    """Refuse a ledger or a predicate that no training can use."""
    if options.ledger is None or options.where is None:
        return
    from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
    from wdsflow.filtering.ledger.ledger_row import LedgerError, MissingScore
    from wdsflow.training.feed.subset import subset_fixes
    from wdsflow.validate.advice.invocation import train_data

    try:
        LedgerSubset.of(options.ledger, options.where)
    except LedgerError as error:
        asked = Path(options.ledger)
        near = None if isinstance(error, MissingScore) else nearest_ledger(asked)
        if near is not None and near != asked and not (asked / "_wdsflow").is_dir():
            refuse(str(error), f"with the ledgers in {near}: {typed.again(ledger=near)}")
        flags = ["--dry-run"] if dry_run else []
        refuse(str(error), *subset_fixes(options, train_data(options.argv) or "", error, *flags))
    except ValueError as error:
        refuse(str(error))


class DecodeChoice(str, Enum):
    """How images are decoded."""

    reference = "reference"
    exact = "exact"
    fast = "fast"


class DecodeIn(str, Enum):
    """Where images are decoded."""

    auto = "auto"
    processes = "processes"
    threads = "threads"


class ScheduleChoice(str, Enum):
    """Which rank reads which shards."""

    openclip = "openclip"
    balanced = "balanced"


Caption = Annotated[
    str | None,
    typer.Option(
        metavar="FIELDS",
        help='Where captions are: "txt|json:description;alt". Members are separated by | and tried in order; for json, name the fields.',
        rich_help_panel=MAIN,
    ),
]
Image = Annotated[
    str | None,
    typer.Option(
        metavar="FIELDS",
        help='Members that hold the image; the first that exists is used: "jpg;png;webp".',
        rich_help_panel=MAIN,
    ),
]
TrainLedger = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="DIR",
        help="Folder that score or filter wrote; with --where, train only on samples that it keeps. Writes nothing.",
        rich_help_panel=SAMPLES,
    ),
]
TrainWhere = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="PREDICATE",
        help='Train only on samples that this keeps, by the scores in --ledger: "clip_similarity > 0.28".',
        rich_help_panel=SAMPLES,
    ),
]
MaxPixels = Annotated[
    int | None,
    typer.Option(
        "--max-pixels",
        min=1,
        metavar="N",
        help="Drop images with more pixels, by their header.",
        rich_help_panel=SAMPLES,
    ),
]
Decoding = Annotated[
    DecodeChoice,
    typer.Option(
        metavar="MODE",
        help="fast: JPEG at the smallest scale that is large enough. exact: every pixel, by faster libraries. reference: OpenCLIP's own pixels, to the bit.",
        rich_help_panel=MAIN,
    ),
]
K = Annotated[
    float,
    typer.Option(
        "--k",
        metavar="K",
        help="With --decode fast: keep images at least K times as large as needed.",
        rich_help_panel=SAMPLES,
    ),
]
Scheduling = Annotated[
    ScheduleChoice,
    typer.Option(
        metavar="SCHEDULE",
        help="openclip: the shards that OpenCLIP would read, in its order. balanced: each sample once per epoch, the same number of batches for each rank, even with few shards.",
        rich_help_panel=MAIN,
    ),
]
StallAfter = Annotated[
    float,
    typer.Option(
        "--stall-after",
        metavar="SECONDS",
        help="Stop all ranks after this many seconds without a batch.",
        rich_help_panel=MAIN,
    ),
]
StallSamples = Annotated[
    int | None,
    typer.Option(
        "--stall-samples",
        min=1,
        metavar="N",
        help="Stop all ranks after this many lost samples in a row.",
        rich_help_panel=CHECKS,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory limit for all data in flight, such as 2GiB.", rich_help_panel=MAIN),
]
Decoders = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Images that each rank decodes at once; by default all its processors.",
        rich_help_panel=MAIN,
    ),
]
DecodingIn = Annotated[
    DecodeIn,
    typer.Option(
        "--decode-in",
        metavar="WHERE",
        help="Decode in processes or threads. auto: processes if the system forks.",
        rich_help_panel=MACHINES,
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write metrics to this file: FILE.prom for Prometheus, FILE.jsonl for JSON lines.",
        rich_help_panel=MAIN,
    ),
]
StatusEvery = Annotated[
    float,
    typer.Option(
        "--status-every",
        min=0,
        metavar="SECONDS",
        help="Seconds between status lines; 0 for warnings about losses and damage only.",
        rich_help_panel=CHECKS,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Check the shards, report what would go wrong in this run, and do not train.",
        rich_help_panel=MAIN,
    ),
]
NoPreflight = Annotated[
    bool, typer.Option("--no-preflight", help="Train without checking the shards first.", rich_help_panel=CHECKS)
]
CheckpointEvery = Annotated[
    int | None,
    typer.Option(
        "--checkpoint-every",
        min=1,
        metavar="STEPS",
        help="Also save within epochs, every N steps. --resume latest then continues with the next batch.",
        rich_help_panel=MAIN,
    ),
]
