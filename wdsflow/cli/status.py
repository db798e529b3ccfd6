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
from wdsflow.text.options import argument, option, place
from wdsflow.text.shell import escape

if TYPE_CHECKING:
    from wdsflow.records.run_status import RunStatus


@dataclass(frozen=True)
class Folder:
    """The output folder of a run."""

    out: Path | str = argument(
        "OUT", "Output folder of a run, or its url in an object store.", parse=place
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
    from wdsflow.records.run_status import NoRun, statuses
    from wdsflow.records.store import StoreError

    try:
        found = statuses(where.out)
    except NoRun as error:
        refuse(str(error), "name the folder that a command got with -o")
    except StoreError as error:
        refuse(f"cannot read {error.filename}: {error.strerror}")
    if options.as_json:
        print(json.dumps([each.to_dict() for each in found], indent=1))
    else:
        print_lines(*(line for each in found for line in status_lines(each, where.out)))
    sys.exit(not all(each.is_done and each.merged for each in found))


def status_lines(status: "RunStatus", out: Path | str) -> Iterator[str]:
    """Yield the status of a run: slices that are not done, and the commands that complete it."""
    kept = (
        f", {status.total('kept'):,} kept"
        if any(each.kept is not None for each in status.slices)
        else ""
    )
    samples = f"; {status.total('samples'):,} samples{kept}" if status.total("shards") else ""
    yield f"{status.summary}{samples}"
    left = [each for each in status.slices if each.phase != "done"]
    for each in left:
        which = f"slice {each.index:,}: " if status.count > 1 else ""
        detail = "; ".join(filter(None, (each.process, escape(each.why, 500))))
        shards = f", {each.done:,} of {each.shards:,} shards done" if each.shards else ""
        yield f"  {which}{each.phase}{shards}{detail and f' ({detail})'}"
    again = [each.command for each in left if each.phase != "running"]
    if any(again):
        yield from (
            "to complete it:",
            *(f"  {escape(command, 100_000)}" for command in again if command),
        )
    elif status.is_done and status.merged:
        yield "complete"
    elif status.is_done and status.run in ("filter", "measure"):
        yield f"next: {Typed.spell('merge', str(out))}"
    elif again or not left:
        # A program called it, or it was killed just before its end.
        yield "to complete it, run the same again"
