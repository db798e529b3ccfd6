"""The summary of a run of ``filter``, ``measure`` or ``merge``.

The funnel, the outputs and the next commands.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from wdsflow.cli.shared.advice_on_scores import measure_again
from wdsflow.cli.shared.nearest_paths import nearest_shards
from wdsflow.cli.shared.refuse import refuse_in_lines
from wdsflow.cli.shared.typed import Typed
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.decompress import UNPACK
from wdsflow.text.shell import quote_path
from wdsflow.text.words import how_many

from .next_steps import next_steps

if TYPE_CHECKING:
    from wdsflow.filtering.run_report import RunReport

# Reasons shown if nothing could be read.
_REASONS = 3


def show(report: "RunReport", out: Path, typed: Typed) -> NoReturn:
    """Print the funnel, the outputs, and the next commands.

    Exit status: 0; 1 if something could not be read, or little was kept; 2 if nothing could be
    read.
    """
    if report.unread:
        _refuse_unread(report, typed)
    print(report)
    if not report.dry_run:
        if report.quarantine is not None and report.tars and report.merged("quarantined"):
            print(f"quarantined samples: {report.quarantine}")
        print(f"ledgers: {out / '.wdsflow' / 'ledger'}")
    for line in next_steps(report, out, typed):
        print(line)
    sys.exit(1 if report.failures or report.lost or report.warning else 0)


def _refuse_unread(report: "RunReport", typed: Typed) -> NoReturn:
    """Report that no shard could be read, with the reasons, and a fix for the first of them."""
    reasons = report.reasons()
    lines: list[str] = []
    for urls, reason in reasons[:_REASONS]:
        path = Shard.from_text(urls[0]).path
        name = urls[0] if path is None else os.path.abspath(path)
        more = f" and {len(urls) - 1:,} more" if len(urls) > 1 else ""
        lines.append(f"{name}{more}: {reason}")
    if len(reasons) > _REASONS:
        lines.append(f"and {how_many(len(reasons) - _REASONS, 'other reason')}")
    action = "filtered" if typed.name == "filter" else "measured"
    refuse_in_lines(
        f"nothing could be {action}: " + "\n".join(lines), *_advice_on_first_failure(report, typed)
    )


def _advice_on_first_failure(report: "RunReport", typed: Typed) -> Iterator[str]:
    first = report.failures[0]
    path = Shard.from_text(first.url).path
    if first.kind == "ledger":
        yield from measure_again(typed, first.missing)
    elif first.kind == "missing" and path is not None:
        nearest = nearest_shards(first.url)
        if nearest:
            yield typed.command_with(urls=[nearest])
    elif first.kind == "missing":
        yield "the server has no such file: check the address"
    elif first.kind == "denied" and path is not None:
        yield f"chmod u+r {quote_path(path)}"
    elif first.kind == "io" and path is not None and UNPACK not in first.reason:
        yield "it is not a shard: download or write it again"
    elif first.kind == "io" and path is None:
        yield "the server failed several times: check that it is up, and the address"
