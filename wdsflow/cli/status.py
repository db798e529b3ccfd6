"""``wdsflow status``: how far a run is."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.printing import print_lines
from wdsflow.cli.shared.refuse import refuse
from wdsflow.cli.shared.typed import Typed
from wdsflow.text.options import argument, folder_or_url, option
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

if TYPE_CHECKING:
    from wdsflow.records.run_status import RunStatus


@dataclass(frozen=True)
class Folder:
    """The output folder of a run."""

    out: Path | str = argument(
        "OUT", "Output folder of a run, or its url in an object store.", parse=folder_or_url
    )


@dataclass(frozen=True)
class StatusOptions:
    """How the status is printed."""

    as_json: bool = option(False, "Print JSON.", "--json")


def status(_: Typed, where: Folder, options: StatusOptions) -> None:
    """Report how far a run is, slice by slice, and what to run again.

    Reads what the run, or each task of a job array, has recorded in OUT; changes nothing, also
    while others work there:

    wdsflow status out

    Exit status: 0 if the output is complete; 1 if not yet; 2 if no run has written to OUT.
    """
    from wdsflow.records.object_store.store_objects import StoreError
    from wdsflow.records.read_status import NoRun, statuses

    try:
        runs = statuses(where.out)
    except NoRun as error:
        refuse(str(error), "name the folder that a command got with -o")
    except StoreError as error:
        refuse(f"cannot read {error.filename}: {error.strerror}")
    if options.as_json:
        print(json.dumps([run.to_dict() for run in runs], indent=1))
    else:
        for run in runs:
            print_lines(*status_lines(run, where.out))
    sys.exit(not all(run.is_done and run.merged for run in runs))


def status_lines(status: "RunStatus", out: Path | str) -> Iterator[str]:
    """Yield the status of a run: slices that are not done, and the commands that complete it."""
    summary = str(status.summary)
    if status.total("shards"):
        summary += f"; {how_many(status.total('samples'), 'sample')}"
        if any(part.kept is not None for part in status.slices):
            summary += f", {status.total('kept'):,} kept"
    yield summary
    remaining = [part for part in status.slices if part.phase != "done"]
    for part in remaining:
        name = f"slice {part.index:,}: " if status.count > 1 else ""
        shards = f", {part.done:,} of {part.shards:,} shards done" if part.shards else ""
        detail = "; ".join(filter(None, (part.process, escape(part.why, 500))))
        if detail:
            detail = f" ({detail})"
        yield f"  {name}{part.phase}{shards}{detail}"
    again = [part.command for part in remaining if part.phase != "running"]
    if any(again):
        yield "to complete it:"
        for command in again:
            if command:
                yield f"  {escape(command, 100_000)}"
    elif status.is_done and status.merged:
        yield "complete"
    elif status.is_done and status.run in ("filter", "measure"):
        yield f"next: {Typed.spell_command('merge', str(out))}"
    elif again or not remaining:
        # A program called it, or it was killed just before its end.
        yield "to complete it, run the same again"
