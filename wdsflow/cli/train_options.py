"""The options of ``wdsflow train``, each with its help."""

from enum import Enum
from typing import Annotated

import typer


class DecodeChoice(str, Enum):
    """How images are decoded."""

    reference = "reference"
    exact = "exact"
    fast = "fast"


class DecodeIn(str, Enum):
    """Where."""

    auto = "auto"
    processes = "processes"
    threads = "threads"


class ScheduleChoice(str, Enum):
    """Which rank reads what."""

    openclip = "openclip"
    balanced = "balanced"


Caption = Annotated[
    str | None,
    typer.Option(
        metavar="FIELDS",
        help='Where captions are: "txt|json:description;alt", members parted by |, tried in order; of json, names.',
    ),
]
Image = Annotated[str | None, typer.Option(metavar="FIELDS", help='Members that hold the image: "jpg;png;webp".')]
MaxPixels = Annotated[
    int | None, typer.Option("--max-pixels", min=1, metavar="N", help="Drop larger images, by their header.")
]
Decoding = Annotated[
    DecodeChoice,
    typer.Option(
        metavar="MODE",
        help="reference: as OpenCLIP decodes, bit by bit; exact: all pixels, by faster libraries; "
        "fast: JPEG at the smallest scale that is large enough.",
    ),
]
K = Annotated[float, typer.Option("--k", metavar="K", help="fast keeps images at least K times as large as asked.")]
Scheduling = Annotated[
    ScheduleChoice,
    typer.Option(
        metavar="SCHEDULE",
        help="openclip: the shards that OpenCLIP would read, in its order; balanced: each sample once an epoch, "
        "as many batches for each rank, shards may be few.",
    ),
]
StallAfter = Annotated[
    float, typer.Option("--stall-after", metavar="SECONDS", help="All ranks fail after so long without a batch.")
]
StallSamples = Annotated[
    int | None,
    typer.Option("--stall-samples", min=1, metavar="N", help="The same after so many samples lost in a row."),
]
Memory = Annotated[str | None, typer.Option(metavar="SIZE", help="Bound of everything in flight, as 2GiB.")]
Decoders = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Images decoded at once, of each rank; all its processors if not given."),
]
DecodingIn = Annotated[
    DecodeIn,
    typer.Option(
        "--decode-in",
        metavar="WHERE",
        help="processes of their own, or threads; auto: processes where the system forks.",
    ),
]
Metrics = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write metrics: FILE.prom for Prometheus, FILE.jsonl for JSON lines.")
]
StatusEvery = Annotated[
    float, typer.Option("--status-every", min=0, metavar="SECONDS", help="Between status lines; 0 for none.")
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Look at the shards, report all that is wrong for this feed, and do not train."),
]
NoPreflight = Annotated[
    bool, typer.Option("--no-preflight", help="Do not look at the shards first, and train in any case.")
]
CheckpointEvery = Annotated[
    int | None,
    typer.Option(
        "--checkpoint-every",
        min=1,
        metavar="STEPS",
        help="Save inside of epochs too; --resume latest then goes on at the very next batch.",
    ),
]
