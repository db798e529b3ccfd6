"""Runs one pass over shards.

Shards that are not done are processed on the engine of the run, and recorded.
"""

import json
from contextlib import ExitStack, closing

from wdsflow.engines.base import work_on
from wdsflow.filtering.recipe.recipe import canonical_json
from wdsflow.filtering.run_progress import RunWatch, progress_reported
from wdsflow.filtering.run_record import RunRecord
from wdsflow.filtering.run_report import RunReport
from wdsflow.records.run_folder import Layout
from wdsflow.records.unfinished import unfinished_run
from wdsflow.shards.scratch import scratch

from .filter_pass import Pass
from .pass_engine import connected_cluster, engine_for
from .pass_models import start_models
from .pass_results import PassResults
from .pass_tasks import RemainingShards, remaining_shards, shard_tasks


def run_pass(pass_: Pass) -> RunReport:
    """Process the shards that are not done.

    Raises Busy, Differs, EngineError, FileExistsError, LedgerError, OutputError.
    """
    report = RunReport(pass_.layout.folder, tars=pass_.tars, quarantine=pass_.layout.quarantined)
    report.dry_run = pass_.options.dry_run
    report.requested = len(pass_.shards())
    with ExitStack() as stack:
        record = _open_folder(stack, pass_)
        was_finished = record is not None and unfinished_run(record.folder) is None
        _begin(pass_, record)
        if pass_.prepare is None or pass_.prepare(pass_, report):
            remaining = RemainingShards(pass_.shards(), {})
            if record is not None:
                remaining = remaining_shards(pass_, record, report)
            if remaining.shards:
                _process(pass_, remaining, record, report)
            _finish(record, report, was_finished=was_finished)
    report.records.sort(key=lambda record: record.shard)
    report.failures.sort(key=lambda failure: failure.shard)
    report.check()
    return report


def _open_folder(stack: ExitStack, pass_: Pass) -> RunRecord | None:
    """Lock the output folder, and return its record.

    A dry run gets a temporary folder, and no record.
    """
    options = pass_.options
    if not options.dry_run:
        part = (options.index, options.count)
        return stack.enter_context(RunRecord(pass_.layout, pass_.kind, part))
    folder = pass_.layout.folder.absolute()
    # Other nodes see it, too.
    shared = next(path for path in (folder, *folder.parents) if path.is_dir())
    parent = shared if options.engine == "ray" else None
    pass_.layout = Layout(stack.enter_context(scratch("run", parent)))
    return None


def _begin(pass_: Pass, record: RunRecord | None) -> None:
    """Record the request, and create the folders of outputs."""
    if record is not None:
        request = json.loads(canonical_json(pass_.request))
        record.begin(
            request,
            pass_.names,
            inputs=pass_.urls,
            restart=pass_.options.restart,
            shards=pass_.tars,
        )
    for path in pass_.layout.folders():
        path.mkdir(parents=True, exist_ok=True)


def _process(
    pass_: Pass, remaining: RemainingShards, record: RunRecord | None, report: RunReport
) -> None:
    """Process shards on an engine, with the models that they need."""
    options = pass_.options
    with ExitStack() as stack:
        models = start_models(stack, pass_, remaining, record)
        tasks = shard_tasks(pass_, remaining, models)
        cluster = pass_.cluster or stack.enter_context(connected_cluster(options))
        engine = engine_for(
            pass_.recipe,
            pass_.layout,
            options,
            [url for _, url, _ in remaining.shards],
            [lock.fd for lock in record.locks] if record is not None else [],
            cluster,
            scores=pass_.computes_scores,
            window=models.window,
        )
        activity = "writing" if pass_.tars else "measuring"
        report_shard = options.begin(len(tasks), activity) if options.begin else None
        results = PassResults(report, record)
        answers = stack.enter_context(closing(work_on(engine, tasks)))
        watch = RunWatch(engine, tasks, activity, models.devices)
        if options.watch is not None:
            stack.enter_context(progress_reported(watch, options.watch))
        for task, answer in answers:
            result = results.add(task, answer)
            watch.add(task, getattr(result, "samples", 0))
            results.record(result)
            if report_shard is not None:
                report_shard(result)
        results.finish()


def _finish(record: RunRecord | None, report: RunReport, *, was_finished: bool) -> None:
    """Complete the record of a pass.

    A pass that could read no shard leaves the folder as it was.
    """
    report.whole = not report.failures
    if record is None:
        return
    reason = report.failures[0].reason if report.failures else ""
    if not report.unread:
        report.whole = record.finish(reason)
        return
    record.state.update(ended=f"nothing could be read: {reason}")
    if was_finished:
        record.restore_counts()
