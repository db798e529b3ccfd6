"""``wdsflow graft``: fields of samples added or replaced by a join with a table."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.advice_on_shards import warn_of_repeated_shard
from wdsflow.cli.shared.next_commands import new_shards_lines
from wdsflow.cli.shared.printing import print_lines
from wdsflow.cli.shared.progress_bars import progress
from wdsflow.cli.shared.refuse import refuse
from wdsflow.cli.shared.run_arguments import NewShards
from wdsflow.cli.shared.typed import Typed
from wdsflow.reshaping.options import GraftRequest
from wdsflow.text.shell import escape

if TYPE_CHECKING:
    from wdsflow.reshaping.graft.graft_report import GraftReport


def graft(typed: Typed, shards: NewShards, request: GraftRequest) -> None:
    """Add captions or other fields from a table.

    Images and all other members are copied byte for byte; the inputs never change. Samples without
    a row stay as they are. The table may be larger than memory. The same command resumes an
    interrupted run.

    Exit status: 0; 1 if something could not be read or set, or no sample has a row; 2 if the
    command is wrong, the join is refused, or nothing could be read or written.
    """
    from wdsflow.reshaping.graft.run_graft import graft_shards

    with shards.folder() as folder:
        with progress() as begin:
            report = graft_shards(shards.urls, folder, **vars(replace(request, begin=begin)))
        warn_of_repeated_shard(shards.urls)
        _show(report, folder, shards.urls, typed)


def _show(report: "GraftReport", out: Path, urls: list[str], typed: Typed) -> None:
    unread = [shard for shard in report.shards if shard.lost and not shard.samples]
    if len(unread) == len(report.shards):
        what = f"nothing could be read: {escape(unread[0].url, 300)}: {unread[0].lost[0]}"
        refuse(what, f"see what is wrong: {typed.other_command('validate', *urls)}")
    print_lines(*str(report).splitlines())
    for option in report.values_not_set:
        print(f"wdsflow: --set {escape(option, 200)} changed no sample", file=sys.stderr)
    if report.lost:
        print_lines(f"damage: {typed.other_command('validate', *urls)}")
    if report.total("written"):
        print_lines(*new_shards_lines(out, report.missing_outputs))
    sys.exit(int(report.lost or report.refused or bool(report.values_not_set)))
