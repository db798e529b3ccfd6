"""One output of all slices of a run: one record, with the counts of all shards."""

from collections.abc import Sequence
from pathlib import Path

from wdsflow.filtering.ledger.ledger_metadata import LedgerError
from wdsflow.filtering.recipe.recipe import recorded_run
from wdsflow.records.file_identity import why_changed
from wdsflow.records.read_status import statuses
from wdsflow.records.run_status import RunStatus

from .run_folder import Layout
from .run_record import RunRecord, as_it_was
from .run_report import RunReport


class NotDone(Exception):
    """Slices of a run are not done. ``status`` has the commands that complete it; ``changed``: why a slice must run again."""

    def __init__(self, status: RunStatus, changed: Sequence[tuple[int, str]] = ()) -> None:
        self.status, self.changed = status, changed
        super().__init__(f"{status.summary}; nothing was merged")


def merge_slices(out: Path) -> RunReport:
    """Make one output of all finished slices of a run of ``filter`` or ``measure``, as a run without slices writes it.

    The last slice that ends does this, unless it was killed, or others were run again. What is
    merged stays merged: a second call changes nothing, and after a killed one the next call
    completes its work.

    Args:
        out: the folder that the slices share.

    Raises:
        LedgerError: the folder has no run.
        NotDone: outputs are missing, or have changed since they were written.
        Busy: a slice still works in the folder.
        OSError: the record cannot be written.
    """
    layout = Layout(out)
    asked = recorded_run(layout.run_file)
    if not asked:
        raise LedgerError(f"{out} holds no run of filter or measure")
    layout, tars, names = (
        as_it_was(layout, asked),
        asked["kind"] != "measure",
        [str(name) for name in asked["names"]],
    )
    # Before a slice at work refuses its lock.
    _must_be_done(out)
    with RunRecord(layout, str(asked["kind"])) as record:
        status = _must_be_done(out)
        if not status.merged:
            record.identity = status.identity
            record.adopt(names)
        records = [record.lines[name] for name in names]
        files = (
            (at % status.count, *file)
            for at, line in enumerate(records)
            for file in record.files(line)
        )
        if changed := [
            (index, why) for index, path, was in files if (why := why_changed(path, was))
        ]:
            raise NotDone(status, changed)
        report = RunReport(
            out, records, tars=tars, quarantine=layout.quarantined, requested=len(records)
        )
        if not status.merged:
            record.finish()
    report.check()
    return report


def _must_be_done(out: Path) -> RunStatus:
    # That of run.json comes first.
    status = statuses(out)[0]
    if not status.is_done:
        raise NotDone(status)
    return status
