"""``wdsflow train``: OpenCLIP's training on wdsflow's feed."""

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from wdsflow.cli.shared.terminal import WRONG_USE, check_logs, check_output, console, fail, full_disk, progress
from wdsflow.cli.shared.train_options import (
    Caption,
    CheckpointEvery,
    DecodeChoice,
    DecodeIn,
    Decoders,
    Decoding,
    DecodingIn,
    DryRun,
    Image,
    K,
    MaxPixels,
    Memory,
    Metrics,
    NoPreflight,
    ScheduleChoice,
    Scheduling,
    StallAfter,
    StallSamples,
    StatusEvery,
    TrainLedger,
    TrainWhere,
    both_or_none,
    check_subset,
)
from wdsflow.cli.shared.typed_command import Typed
from wdsflow.text.shell import command

if TYPE_CHECKING:
    from wdsflow.training.feed_options import FeedOptions
    from wdsflow.training.launch.preflight import Preflight

_FAILED = 1


def train(
    context: typer.Context,
    caption: Caption = None,
    image: Image = None,
    ledger: TrainLedger = None,
    where: TrainWhere = None,
    max_pixels: MaxPixels = None,
    decode: Decoding = DecodeChoice.fast,
    k: K = 2.0,
    schedule: Scheduling = ScheduleChoice.openclip,
    stall_after: StallAfter = 300.0,
    stall_samples: StallSamples = None,
    memory: Memory = None,
    decoders: Decoders = None,
    decode_in: DecodingIn = DecodeIn.auto,
    metrics: Metrics = None,
    status_every: StatusEvery = 10.0,
    dry_run: DryRun = False,
    no_preflight: NoPreflight = False,
    checkpoint_every: CheckpointEvery = None,
) -> None:
    """Train with OpenCLIP, with wdsflow as its loader.

    Arguments after -- are passed to open_clip_train:

    wdsflow train --caption json:alt -- --train-data "{000..042}.tar" --workers 6

    wdsflow train --ledger scored --where "clip_similarity > 0.28" -- --train-data "{000..042}.tar"

    On several GPUs, use torchrun, or srun --ntasks-per-node 8:

    torchrun --nproc_per_node 8 -m wdsflow train -- --train-data "{000..042}.tar"

    Reads the names in the shards first, which takes seconds, and refuses a run that would hang.

    Exit status: 0 trained; 1 the data or the run failed (--dry-run: errors found); 2 wrong command, or nothing could be read; 130 interrupted.
    """
    argv, typed = _after_dashes(context), Typed(context)
    options = _options(
        caption=caption,
        image=image,
        **both_or_none(ledger, where, typed, argv),
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
        argv=tuple(argv),
    )
    _check(argv, options, typed, dry_run=dry_run)
    raise typer.Exit(_train(argv, options, checkpoint_every, refused=not no_preflight and _refused(argv, options)))


def _after_dashes(context: typer.Context) -> list[str]:
    """Return OpenCLIP's arguments; refuse a command without them."""
    if not context.obj:
        fail("no training command given: write it after --", "all options: wdsflow train --help")
    return list(context.obj)


def _options(**values: Any) -> "FeedOptions":
    from wdsflow.shards.shard_names import alternatives
    from wdsflow.training.caption_sources import parse_captions
    from wdsflow.training.feed_options import FeedOptions
    from wdsflow.training.stalls.progress import Metrics

    try:
        if values["caption"] is not None:
            parse_captions(values["caption"])
        if values["image"] is not None:
            alternatives(values["image"])
        if values["metrics"] is not None:
            Metrics(values["metrics"])
        return FeedOptions(**values)
    except ValueError as error:
        fail(str(error))


def _check(argv: Sequence[str], options: "FeedOptions", typed: Typed, *, dry_run: bool) -> None:
    """Refuse what cannot work before any other work: wrong arguments, other data. Then a dry run reports, and ends."""
    from wdsflow.readers.open_clip.arguments import ArgumentsError, check_numbers, names_shards, parsed_by
    from wdsflow.training.feed_options import NoOpenClip
    from wdsflow.training.launch.launch import parse

    check_output(Path(options.metrics) if options.metrics else None, "metrics", typed)
    try:
        arguments = parse(argv) if {"-h", "--help"} & set(argv) else parsed_by(parse, argv)
        check_numbers(arguments)
    except NoOpenClip as error:
        fail(str(error))
    except ArgumentsError as error:
        own = [word for word in argv if word.partition("=")[0] in typed.options()]
        fail(
            f"in the arguments after --: {error}", f"put {own[0]} before --: it is an option of wdsflow" if own else ""
        )
    data, kind = arguments.train_data or arguments.val_data or "", arguments.dataset_type
    if (data or kind.startswith("synthetic")) and not names_shards(data, kind):
        fail(
            f"only WebDataset shards can be fed; {f'{data} is read' if data else 'data are made'} as --dataset-type "
            f"{kind if kind != 'auto' else data.rpartition('.')[2]}",
            f"with OpenCLIP's own loader: {command(['python', '-m', 'open_clip_train.main', *argv])}",
        )
    check_logs(arguments.logs)
    check_subset(options, typed, dry_run=dry_run)
    if dry_run:
        _report(argv, options)


def _refused(argv: Sequence[str], options: "FeedOptions") -> bool:
    """Check the shards on the first rank; exit if they would starve it; return True if it must report to others."""
    from wdsflow.training.launch.launch import ends_others
    from wdsflow.training.ranks import rank_and_world

    rank, world_size = rank_and_world()
    if rank:
        return False
    found = _preflight(argv, options, world_size)
    if found is None:
        return False
    _print_lines(found, argv, options)
    sys.stderr.flush()
    if found.refused and (world_size == 1 or ends_others()):
        raise typer.Exit(WRONG_USE if found.nothing_read else _FAILED)
    return found.refused


def _preflight(
    argv: Sequence[str], options: "FeedOptions", world_size: int, *, dry_run: bool = False
) -> "Preflight | None":
    from wdsflow.training.launch.preflight import preflight
    from wdsflow.training.launch.preflight_timeout import ended_if_idle

    with progress() as begin, ended_if_idle(options, begin, _show) as begun:
        return preflight(argv, options, world_size=world_size, progress=begun, dry_run=dry_run)


def _report(argv: Sequence[str], options: "FeedOptions") -> NoReturn:
    """Print the full report on the shards of this run, and exit.

    The status is 1 for a refusal, and for an error that training survives, such as a missing shard.
    """
    from wdsflow.training.ranks import rank_and_world
    from wdsflow.validate.report import report_text

    found = _preflight(argv, options, rank_and_world()[1], dry_run=True)
    if found is None:
        fail("this command trains on no shards that wdsflow can check")
    for report in found.reports:
        report_text.show(report, console())
    _print_lines(found, argv, options, "--dry-run")
    wrong = found.refused or any(report.exit_status for report in found.reports)
    raise typer.Exit(WRONG_USE if found.nothing_read else int(wrong))


def _print_lines(found: "Preflight", argv: Sequence[str], options: "FeedOptions", *flags: str) -> None:
    """Print what was found; where no shard could be read, also the command with shards of a similar name."""
    from wdsflow.cli.shared.nearest_paths import nearest_shards
    from wdsflow.training.stalls import field_fixes
    from wdsflow.validate.advice.invocation import train_data, with_flags

    for line in found.lines:
        print(line, file=sys.stderr)
    near = nearest_shards(train_data(argv) or "") if found.nothing_read else ""
    if near:
        meant = replace(options, argv=tuple(with_flags(argv, ["--train-data", near])))
        print(f"  {field_fixes.command(meant, *flags)}", file=sys.stderr)


def _train(argv: Sequence[str], options: "FeedOptions", checkpoint_every: int | None, *, refused: bool) -> int:
    from wdsflow.shards.urls import NoShards
    from wdsflow.training.feed_options import FeedStopped, NoOpenClip
    from wdsflow.training.launch.launch import Refused, launch

    try:
        with full_disk("free space there; --resume latest after -- resumes at the latest checkpoint"):
            return launch(argv, options, checkpoint_every=checkpoint_every, refused=refused)
    except NoOpenClip as error:
        fail(str(error))
    except (Refused, FeedStopped, NoShards) as error:
        _end(error)


def _show(text: str) -> None:
    from wdsflow.text.shell import escape

    for number, line in enumerate(text.splitlines()):
        print(f"{'' if number else 'wdsflow: '}{escape(line, 4_000)}", file=sys.stderr)
    sys.stderr.flush()


def _end(error: Exception) -> NoReturn:
    """Report what is wrong with the data or the run, without a traceback."""
    from wdsflow.training.ranks import rank_and_world

    logging.disable(logging.INFO)  # torch's logs at the end of Python would hide the message
    _show(str(error))
    if rank_and_world()[1] > 1:
        os._exit(_FAILED)  # a process group whose other ranks are gone may never shut down
    raise typer.Exit(_FAILED)
