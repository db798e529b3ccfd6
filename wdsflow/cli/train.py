"""``wdsflow train``: OpenCLIP's training on wdsflow's feed."""

import logging
import os
import sys
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from .terminal import check_logs, check_output, fail, full_disk, progress

if TYPE_CHECKING:
    from wdsflow.training.options import FeedOptions

_FAILED = 1


class Decode(str, Enum):
    """How images are decoded."""

    reference = "reference"
    exact = "exact"
    fast = "fast"


class DecodeIn(str, Enum):
    """Where."""

    auto = "auto"
    processes = "processes"
    threads = "threads"


class Schedule(str, Enum):
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
    Decode,
    typer.Option(
        metavar="MODE",
        help="reference: as OpenCLIP decodes, bit by bit; exact: all pixels, by faster libraries; "
        "fast: JPEG at the smallest scale that is large enough.",
    ),
]
K = Annotated[float, typer.Option("--k", metavar="K", help="fast keeps images at least K times as large as asked.")]
Scheduling = Annotated[
    Schedule,
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


def train(
    context: typer.Context,
    caption: Caption = None,
    image: Image = None,
    max_pixels: MaxPixels = None,
    decode: Decoding = Decode.fast,
    k: K = 2.0,
    schedule: Scheduling = Schedule.openclip,
    stall_after: StallAfter = 300.0,
    stall_samples: StallSamples = None,
    memory: Memory = None,
    decoders: Decoders = None,
    decode_in: DecodingIn = DecodeIn.auto,
    metrics: Metrics = None,
    status_every: StatusEvery = 10.0,
    no_preflight: NoPreflight = False,
    checkpoint_every: CheckpointEvery = None,
) -> None:
    """Train with OpenCLIP, fed by wdsflow.

    What follows -- is the command line of open_clip_train, all of it:

    wdsflow train --caption json:alt -- --train-data "{000..042}.tar" --workers 6

    On several GPUs, in either way:

    torchrun --nproc_per_node 8 -m wdsflow train -- --train-data "{000..042}.tar"

    srun --ntasks-per-node 8 wdsflow train -- --train-data ...

    The names in the shards are read first, in seconds; a run that would starve is refused.

    Exit status: 0 trained, 1 the data or the run failed, 2 wrong use, 130 interrupted.
    """
    argv: list[str] = context.obj or []
    if not argv:
        fail("no training command given", 'try: wdsflow train -- --train-data "shards/{000..042}.tar" --model ViT-B-32')
    options = _options(
        caption=caption,
        image=image,
        max_pixels=max_pixels,
        decode=decode.value,
        k=k,
        schedule=schedule.value,
        stall_after=stall_after,
        stall_samples=stall_samples,
        memory=memory,
        decoders=decoders,
        decode_in=decode_in.value,
        metrics=metrics,
        status_every=status_every,
    )
    _parse(argv)
    refused = not no_preflight and _refused(argv, options)
    with full_disk("make room there; --resume latest after -- goes on at the latest checkpoint"):
        raise typer.Exit(_train(argv, options, checkpoint_every, refused=refused))


def _options(**values: Any) -> "FeedOptions":
    from wdsflow.stages.fields import alternatives
    from wdsflow.training.captions import parse_captions
    from wdsflow.training.metrics import Metrics
    from wdsflow.training.options import FeedOptions

    try:
        if values["caption"] is not None:
            parse_captions(values["caption"])
        if values["image"] is not None:
            alternatives(values["image"])
        if values["metrics"] is not None:
            check_output(Metrics(values["metrics"]).path, "--metrics")
        return FeedOptions(**values)
    except ValueError as error:
        fail(str(error))


def _parse(argv: Sequence[str]) -> None:
    """Let open_clip_train refuse its arguments before anything else is done."""
    from wdsflow.training.launch import NoOpenClip, parse

    try:
        check_logs(parse(argv).logs)
    except NoOpenClip as error:
        fail(str(error))


def _refused(argv: Sequence[str], options: "FeedOptions") -> bool:
    """Look at the shards on the first rank; end if they would starve it, or return True if it has others to tell."""
    from wdsflow.training.launchers import rank_and_world
    from wdsflow.training.patience import ended_if_idle
    from wdsflow.training.preflight import preflight
    from wdsflow.training.refusal import ends_others

    rank, world_size = rank_and_world()
    if rank:
        return False
    with progress() as begin, ended_if_idle(options, begin, _show) as begun:
        found = preflight(argv, options, world_size=world_size, progress=begun)
    if found is None:
        return False
    for line in found.lines:
        print(line, file=sys.stderr)
    sys.stderr.flush()
    if found.refused and (world_size == 1 or ends_others()):
        raise typer.Exit(_FAILED)
    return found.refused


def _train(argv: Sequence[str], options: "FeedOptions", checkpoint_every: int | None, *, refused: bool) -> int:
    from wdsflow.shards.urls import NoShards
    from wdsflow.training.errors import FeedStopped
    from wdsflow.training.launch import NoOpenClip, launch
    from wdsflow.training.refusal import Refused

    try:
        return launch(argv, options, checkpoint_every=checkpoint_every, refused=refused)
    except NoOpenClip as error:
        fail(str(error))
    except (Refused, FeedStopped, NoShards) as error:
        _end(error)


def _show(text: str) -> None:
    from wdsflow.shards.escape import escape

    for number, line in enumerate(text.splitlines()):
        print(f"{'' if number else 'wdsflow: '}{escape(line, 4_000)}", file=sys.stderr)
    sys.stderr.flush()


def _end(error: Exception) -> NoReturn:
    """Say what is wrong with the data or the run, without a traceback."""
    from wdsflow.training.launchers import rank_and_world

    logging.disable(logging.INFO)  # what torch logs at the end of Python would push the message away
    _show(str(error))
    if rank_and_world()[1] > 1:
        os._exit(_FAILED)  # a process group whose other ranks are gone may never come down
    raise typer.Exit(_FAILED)
