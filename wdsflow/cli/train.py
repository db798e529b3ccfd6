"""``wdsflow train``: OpenCLIP's training on wdsflow's feed."""

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from wdsflow.cli.shared.ending import exit_at_once_on_signals
from wdsflow.cli.shared.nearest_paths import nearest_ledger
from wdsflow.cli.shared.output_files import check_output, full_disk, refuse_write
from wdsflow.cli.shared.printing import console
from wdsflow.cli.shared.progress_bars import progress
from wdsflow.cli.shared.refuse import WRONG_USE, refuse, refuse_in_lines
from wdsflow.cli.shared.typed import Typed
from wdsflow.shards.atomic import create_temporary, discard_temporary, os_errors_named
from wdsflow.text.options import CHECKS, option
from wdsflow.text.secrets import redact
from wdsflow.text.shell import command
from wdsflow.training.feed_options import FeedOptions

if TYPE_CHECKING:
    from wdsflow.training.launch.preflight import Preflight

_FAILED = 1


@dataclass(frozen=True)
class TrainOptions:
    """Options of the command that are not options of the feed."""

    dry_run: bool = option(
        False, "Check the shards, report what would go wrong in this run, and do not train."
    )
    checkpoint_every: int | None = option(
        None,
        "Also save within epochs, every N steps. --resume latest then continues with the next batch.",
        metavar="STEPS",
        least=1,
    )
    headspace: bool = option(
        False,
        "Train on 50 batches, then on a few of them again, and report how much of the time training waits for data. Then stop; nothing is saved.",
        panel=CHECKS,
    )
    no_preflight: bool = option(False, "Train without checking the shards first.", panel=CHECKS)


def train(typed: Typed, feed: FeedOptions, actions: TrainOptions) -> None:
    """Train with OpenCLIP, with wdsflow as its loader.

    Arguments after -- are passed to open_clip_train:

    wdsflow train --caption json:alt -- --train-data "{000..042}.tar" --workers 6

    wdsflow train --ledger scored --where "clip_similarity > 0.28" -- --train-data "{000..042}.tar"

    On several GPUs, use torchrun, or srun --ntasks-per-node 8:

    torchrun --nproc_per_node 8 -m wdsflow train -- --train-data "{000..042}.tar"

    --headspace measures how much faster training would be if data cost nothing.

    Reads the names in the shards first, which takes seconds, and refuses a run that would hang.

    Exit status: 0 trained; 1 the data or the run failed (--dry-run: errors found); 2 wrong command,
    or nothing could be read; 130 interrupted.
    """
    argv = typed.after_dashes
    if not argv:
        refuse("no training command given: write it after --", "all options: wdsflow train --help")
    options = replace(feed, argv=tuple(argv), dry_run=actions.dry_run)
    _check_fields(options, typed)
    _check(argv, options, typed)
    refused = not actions.no_preflight and _refused(argv, options)
    sys.exit(_train(argv, options, actions, refused=refused))


def _check_fields(options: FeedOptions, typed: Typed) -> None:
    """Refuse invalid names of members, of metrics and of a cache."""
    from wdsflow.cli.shared.advice_on_tables import refuse_empty_join
    from wdsflow.shards.shard_names import alternatives
    from wdsflow.shards.source.base import local_folder
    from wdsflow.stages.caption_sources import parse_captions
    from wdsflow.training.stalls.metrics_file import Metrics

    try:
        captions = parse_captions(options.caption or "txt").weighted(options.weights)
        if options.image is not None:
            alternatives(options.image)
        if options.metrics is not None:
            Metrics(options.metrics)
        if options.cache is not None:
            local_folder(options.cache)
    except ValueError as error:
        refuse(str(error))
    refuse_empty_join(options, typed, captions)


def _check(argv: Sequence[str], options: FeedOptions, typed: Typed) -> None:
    """Refuse invalid arguments and unsuitable data before any other work.

    Then a dry run reports and exits.
    """
    from wdsflow.readers.open_clip.arguments import (
        ArgumentsError,
        check_model,
        check_numbers,
        run_parser,
    )
    from wdsflow.training.feed_options import NoOpenClip
    from wdsflow.training.launch.launch import parse_openclip_arguments

    check_output(Path(options.metrics) if options.metrics else None, "metrics", typed)
    try:
        arguments = (
            parse_openclip_arguments(argv)
            if {"-h", "--help"} & set(argv)
            else run_parser(parse_openclip_arguments, argv)
        )
        check_numbers(arguments)
        check_model(arguments)
    except NoOpenClip as error:
        refuse(str(error))
    except ArgumentsError as error:
        misplaced = [word for word in argv if word.partition("=")[0] in typed.options()]
        hint = ""
        if misplaced:
            hint = f"put {misplaced[0]} before --: it is an option of wdsflow"
        refuse(f"in the arguments after --: {error}", hint)
    _refuse_other_data(
        arguments.train_data or arguments.val_data or "", arguments.dataset_type, argv
    )
    for data in filter(None, (arguments.train_data, arguments.val_data)):
        _refuse_pipes(data, options)
    _check_logs(arguments.logs)
    check_subset(options, typed)
    if options.dry_run:
        _report(argv, options)


def _refuse_other_data(data: str, kind: str, argv: Sequence[str]) -> None:
    """Refuse data that are no WebDataset shards. ``kind``: OpenCLIP's --dataset-type."""
    from wdsflow.readers.open_clip.arguments import names_shards

    is_named = bool(data) or kind.startswith("synthetic")
    if not is_named or names_shards(data, kind):
        return
    source = f"{redact(data)} is read" if data else "data are made"
    if kind == "auto":
        kind = data.rpartition(".")[2]
    loader = command(["python", "-m", "open_clip_train.main", *argv])
    refuse(
        f"only WebDataset shards can be fed; {source} as --dataset-type {kind}",
        f"with OpenCLIP's own loader: {loader}",
    )


def _check_logs(path: str) -> None:
    """Refuse a folder in which OpenCLIP could not write its logs, before any work.

    OpenCLIP takes "none" for no folder.

    Its first rank writes them.
    """
    from wdsflow.training.ranks import rank_and_world

    if not path or path.lower() == "none" or rank_and_world()[0]:
        return
    folder = Path(path)
    try:
        with os_errors_named(folder):
            existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
            discard_temporary(*create_temporary(existing / "log"))
    except OSError as error:
        refuse_write(error, "name another folder with --logs after --, or --logs none")


def _refuse_pipes(data: str, options: FeedOptions) -> None:
    """Refuse a ``pipe:`` url that may not run, before a model is made for it.

    The preflight refuses it, too.
    """
    from wdsflow.shards.urls import NoShards, PipeNotAllowed, expand
    from wdsflow.training.stalls.field_fixes import pipe_fixes

    try:
        expand(data.split("::"), allow_pipe=options.allow_pipe)
    except PipeNotAllowed as error:
        refuse(f"{error}:", *(line.strip() for line in pipe_fixes(options)))
    except NoShards:
        # The feed reports missing shards, and reads the others.
        return


def _refused(argv: Sequence[str], options: FeedOptions) -> bool:
    """Check the shards on the first rank, and exit if they would starve the feed.

    Returns True instead of exiting if other ranks must be notified.
    """
    from wdsflow.training.launch.launch import launcher_ends_others
    from wdsflow.training.ranks import rank_and_world

    rank, world_size = rank_and_world()
    if rank:
        return False
    result = _preflight(argv, options, world_size)
    if result is None:
        return False
    _print_lines(result, argv, options)
    sys.stderr.flush()
    if result.refused and (world_size == 1 or launcher_ends_others()):
        sys.exit(WRONG_USE if result.nothing_read else _FAILED)
    return result.refused


def _preflight(argv: Sequence[str], options: FeedOptions, world_size: int) -> "Preflight | None":
    from wdsflow.training.launch.preflight import preflight
    from wdsflow.training.launch.preflight_timeout import end_if_idle

    with progress() as begin, end_if_idle(options, begin, _show) as begun:
        return preflight(
            argv, options, world_size=world_size, progress=begun, dry_run=options.dry_run
        )


def _report(argv: Sequence[str], options: FeedOptions) -> NoReturn:
    """Print the full report on the shards of this run, and exit.

    The status is 1 for a refusal and for errors that training survives, such as a missing shard.
    """
    from wdsflow.training.ranks import rank_and_world
    from wdsflow.validate.report import report_text

    _, world_size = rank_and_world()
    result = _preflight(argv, options, world_size)
    if result is None:
        refuse("this command trains on no shards that wdsflow can check")
    for report in result.reports:
        report_text.show(report, console())
    _print_lines(result, argv, options)
    has_errors = result.refused or any(report.exit_status for report in result.reports)
    sys.exit(WRONG_USE if result.nothing_read else int(has_errors))


def _print_lines(result: "Preflight", argv: Sequence[str], options: FeedOptions) -> None:
    """Print the result of the preflight.

    If no shard could be read, also print the command with shards of a similar name.
    """
    from wdsflow.cli.shared.nearest_paths import nearest_shards
    from wdsflow.training.stalls import field_fixes
    from wdsflow.validate.advice.training_flags import train_data, with_flags

    for line in result.lines:
        print(line, file=sys.stderr)
    nearest = nearest_shards(train_data(argv) or "") if result.nothing_read else ""
    if nearest:
        new_argv = tuple(with_flags(argv, ["--train-data", nearest]))
        print(f"  {field_fixes.rerun_command(replace(options, argv=new_argv))}", file=sys.stderr)


def _train(
    argv: Sequence[str], options: FeedOptions, actions: TrainOptions, *, refused: bool
) -> int:
    from wdsflow.shards.urls import NoShards
    from wdsflow.training.feed_options import FeedStopped, NoOpenClip
    from wdsflow.training.launch.launch import Refused, launch

    every = None if actions.headspace else actions.checkpoint_every
    hint = "free space there; --resume latest after -- resumes at the latest checkpoint"
    try:
        with full_disk(hint), exit_at_once_on_signals():
            return launch(
                argv,
                options,
                checkpoint_every=every,
                refused=refused,
                headspace=actions.headspace,
            )
    except NoOpenClip as error:
        refuse(str(error))
    except (Refused, FeedStopped, NoShards) as error:
        _end(error)


def _show(text: str) -> None:
    from wdsflow.text.shell import escape

    prefix = "wdsflow: "
    for line in text.splitlines():
        print(f"{prefix}{escape(line, 4_000)}", file=sys.stderr)
        prefix = ""
    sys.stderr.flush()


def _end(error: Exception) -> NoReturn:
    """Report a problem of the data or the run, without a traceback."""
    from wdsflow.training.ranks import rank_and_world

    # torch's logs at the end of Python would hide the message.
    logging.disable(logging.INFO)
    _show(str(error))
    if rank_and_world()[1] > 1:
        # A process group whose other ranks have ended may hang at shutdown.
        os._exit(_FAILED)
    sys.exit(_FAILED)


def refuse_unpaired(typed: Typed) -> NoReturn:
    """Report a ledger without a predicate, or a predicate without a ledger, and exit.

    The message suggests the missing one.
    """
    ledger = typed.given.get("ledger")
    where = typed.given.get("where")
    argv = typed.after_dashes or []
    from wdsflow.filtering.deciding.example_predicate import example_predicate
    from wdsflow.filtering.deciding.measure_advice import measure_command
    from wdsflow.records.run_folder import Layout
    from wdsflow.validate.advice.training_flags import train_data

    if ledger is not None:
        layout = Layout(Path(ledger))
        names = sorted(f"{path.stem}.tar" for path in (layout.inside / "ledger").glob("*.parquet"))
        example = example_predicate(layout, names)
        hint = f"such as: {typed.command_with(where=example)}" if example else ""
        refuse("--ledger needs --where, which says what to keep", hint)
    problem = "--where needs --ledger: the folder with the scores"
    nearest = nearest_ledger(Path("scored").absolute())
    if nearest is not None:
        refuse(problem, f"with the ledgers in {nearest}: {typed.command_with(ledger=nearest)}")
    urls = (train_data(argv) or "SHARDS").split("::")
    try:
        measure, new_ledger = measure_command(urls, "scored", where or "")
    except ValueError as error:
        refuse_in_lines(str(error))
    refuse(problem, f"to compute them: {measure}", f"then: {typed.command_with(ledger=new_ledger)}")


def check_subset(options: "FeedOptions", typed: Typed) -> None:
    """Refuse a ledger or a predicate that no training can use."""
    if options.ledger is None or options.where is None:
        return
    from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
    from wdsflow.filtering.ledger.ledger_metadata import LedgerError, MissingScore
    from wdsflow.training.feed.subset.subset_advice import subset_fixes
    from wdsflow.validate.advice.training_flags import train_data

    try:
        LedgerSubset.of(options.ledger, options.where)
    except LedgerError as error:
        ledger = Path(options.ledger)
        nearest = None if isinstance(error, MissingScore) else nearest_ledger(ledger)
        is_elsewhere = nearest is not None and nearest != ledger
        if is_elsewhere and not (ledger / ".wdsflow").is_dir():
            refuse(
                str(error), f"with the ledgers in {nearest}: {typed.command_with(ledger=nearest)}"
            )
        refuse(str(error), *subset_fixes(options, train_data(options.argv) or "", error))
    except ValueError as error:
        refuse_in_lines(str(error))
