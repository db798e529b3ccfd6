"""``wdsflow merge``: one output of all slices of a run."""

import sys

from wdsflow.cli.runs.exports import check_exports, write_exports
from wdsflow.cli.runs.summary import show
from wdsflow.cli.shared.output_url import shown_as
from wdsflow.cli.shared.printing import print_lines
from wdsflow.cli.shared.run_arguments import Exports
from wdsflow.cli.shared.typed import Typed
from wdsflow.cli.status import Folder, status_lines
from wdsflow.records.working_folder import working_folder
from wdsflow.text.shell import escape


def merge(typed: Typed, where: Folder, lists: Exports) -> None:
    """Make one output of all slices of filter or measure.

    Each task of a job array writes its slice into OUT. When all are done, this writes the one
    record and the counts of the shards (sizes.json), as one run over all shards does. Otherwise it
    prints the commands that complete what is missing:

    wdsflow merge out

    Exit status: 0 if OUT is complete; 1 if slices are not done, or the run as a whole has a
    problem; 2 if OUT has no run, or cannot be written.
    """
    from wdsflow.filtering.merge_slices import NotDone, merge_slices

    check_exports(lists.export, 1)
    with working_folder(where.out) as folder, shown_as(folder, where.out):
        try:
            report = merge_slices(folder)
        except NotDone as error:
            print(f"wdsflow: {error}", file=sys.stderr)
            if error.changed:
                slices = error.status.slices
                again = dict.fromkeys(
                    slices[index].command or "the same command" for index, _ in error.changed
                )
                print_lines(
                    *(escape(why, 500) for _, why in error.changed[:20]), "to write them again:"
                )
                print_lines(*(f"  {escape(command, 100_000)}" for command in again))
            else:
                print_lines(*status_lines(error.status, where.out))
            sys.exit(1)
        write_exports(report, folder, lists.export)
        show(report, folder, typed)
