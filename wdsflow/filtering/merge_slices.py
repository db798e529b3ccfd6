"""One output of all slices of a run: one record, with the counts of all shards."""

from collections.abc import Sequence
from pathlib import Path

from wdsflow.filtering.ledger.ledger_metadata import LedgerError
from wdsflow.records.file_identity import why_changed
from wdsflow.records.read_status import statuses
from wdsflow.records.run_folder import Layout, recorded_run
from wdsflow.records.run_status import RunStatus

from .run_record import RunRecord, recorded_layout
from .run_report import RunReport


class NotDone(Exception):
    """Slices of a run are not done.

    ``status`` has the commands that complete the run. ``changed``: slices that must run again, and
    why.
    """

    def __init__(self, status: RunStatus, changed: Sequence[tuple[int, str]] = ()) -> None:
        self.status, self.changed = status, changed
        super().__init__(f"{status.summary}; nothing was merged")


def merge_slices(out: Path) -> RunReport:
    """Make one output of all finished slices of a run of ``filter`` or ``measure``.

    It is the output that a run without slices writes.

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
    request = recorded_run(layout.run_file)
    if not request:
        raise LedgerError(f"{out} holds no run of filter or measure")
    layout = recorded_layout(layout, request)
    names = [str(name) for name in request["names"]]
    # Before a slice at work refuses its lock.
    _require_done(out)
    with RunRecord(layout, str(request["kind"])) as record:
        status = _require_done(out)
        if not status.merged:
            record.identity = status.identity
            record.adopt(names)
        records = [record.lines[name] for name in names]
        changed = []
        for number, line in enumerate(records):
            for path, identity in record.files(line):
                reason = why_changed(path, identity)
                if reason:
                    changed.append((number % status.count, reason))
        if changed:
            raise NotDone(status, changed)
        report = RunReport(
            out,
            records,
            tars=request["kind"] != "measure",
            quarantine=layout.quarantined,
            requested=len(records),
        )
        if not status.merged:
            record.finish()
    report.check()
    return report


def _require_done(out: Path) -> RunStatus:
    # That of run.json comes first.
    status = statuses(out)[0]
    if not status.is_done:
        raise NotDone(status)
    return status
