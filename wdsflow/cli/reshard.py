"""``wdsflow reshard``: shards of equal size, shuffled, split or ordered by key."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.advice_on_shards import warn_of_repeated_shard
from wdsflow.cli.shared.next_commands import new_shards_lines
from wdsflow.cli.shared.printing import print_lines
from wdsflow.cli.shared.progress_bars import progress
from wdsflow.cli.shared.run_arguments import NewShards
from wdsflow.cli.shared.typed import Typed, unused_path
from wdsflow.reshaping.reshard.reshard_options import ReshardRequest

if TYPE_CHECKING:
    from wdsflow.reshaping.reshard.reshard_report import ReshardReport


def reshard(typed: Typed, shards: NewShards, request: ReshardRequest) -> None:
    """Write shards of equal size: shuffled, split or by key.

    Copies samples byte for byte; never changes the inputs. Writes sizes.json and __len__ next to
    the shards. Reports how even an epoch is before and after. The same command resumes an
    interrupted run.

    Exit status: 0; 1 if something could not be read or no sample was written; 2 if the command is
    wrong, or nothing could be read or written.
    """
    from wdsflow.reshaping.reshard import reshard_shards

    with shards.folder() as folder:
        with progress() as begin:
            report = reshard_shards(shards.urls, folder, **vars(replace(request, begin=begin)))
        warn_of_repeated_shard(shards.urls)
        _show(report, typed, shards.urls)
    sys.exit(int(report.lost or not report.samples_written or bool(report.empty)))


def _show(report: "ReshardReport", typed: Typed, urls: list[str]) -> None:
    print_lines(*str(report).splitlines())
    if report.lost:
        print_lines(
            f"to bring back what can be read: {typed.other_command('repair', *urls, out=unused_path(Path('repaired')))}"
        )
    for part in report.parts:
        if part.outputs:
            print_lines(*new_shards_lines(part.folder))
    if not report.samples_written:
        print_lines(f"next: {typed.other_command('validate', *urls)}")
