"""The options of ``wdsflow train``, each with its help."""

from enum import Enum
from typing import Annotated

import typer

from .help_panels import CHECKS, MACHINES, MAIN, SAMPLES


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
