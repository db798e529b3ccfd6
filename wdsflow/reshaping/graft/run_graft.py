"""Add or replace fields of samples by a join with a table; images are not changed."""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from wdsflow.records.output_record import OutputRecord
from wdsflow.records.refusals import output_paths
from wdsflow.records.run_outputs import run_outputs
from wdsflow.records.shard_jobs import run_on_shards
from wdsflow.records.unfinished import INSIDE
from wdsflow.records.working_folder import working_folder
from wdsflow.reshaping.options import GraftRequest
from wdsflow.shards.atomic import atomic_file, scratch_folder
from wdsflow.shards.shard import Shard
from wdsflow.shards.urls import expand_existing
from wdsflow.text.options import keywords
from wdsflow.text.words import how_many

from .first_pass import FirstPass
from .graft_job import GraftJob
from .graft_options import GraftOptions, options_of
from .graft_report import GraftReport, ShardGraft
from .graft_shard import graft_shard
from .join_samples import SampleJoin
from .matches import Matches

# Version of the result of a graft.
_CODE = 1
# Folder of the join and of notes on each shard during a run.
_WORK = "graft"
_UNMATCHED = "graft-unmatched.jsonl"
_REASONS = {"table": "the table changed", "decided": "other rows match its samples now"}
# Unmatched rows.
_SHOWN = 5


@keywords(GraftRequest)
def graft_shards(
    urls: str | Iterable[str], out: str | os.PathLike[str], request: GraftRequest
) -> GraftReport:
    """Write each shard into the folder ``out`` with fields from a table.

    Writes ``sizes.json`` and ``__len__`` next to them.

    All other members are copied byte for byte; the inputs never change. Samples without a row are
    not changed. Memory does not grow with the table. The same call resumes an interrupted run.

    Args:
        urls: shards, as for ``check``.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to,
            such as ``s3://bucket/prefix``.
        request: each is a keyword argument.

    Raises:
        NoMatch, AmbiguousJoin: no sample has a row, or samples are ambiguous; nothing is written.
        ContradictedJoin: samples joined on the key have another url or sha256 than their rows;
            nothing is written.
        TableError, ValueError: the table cannot be read or lacks a column; arguments are invalid,
            or urls match nothing.
        OtherOptions: ``out`` holds shards that were grafted with other options.
        Busy: another run works in ``out``.
        FileExistsError: an output exists that no graft wrote, or would replace an input.
        OSError: an output cannot be written. Finished shards are kept, partial ones removed.
    """
    with working_folder(out) as folder:
        return _graft_into(folder, urls, request).naming(out, folder)


def _graft_into(folder: Path, urls: str | Iterable[str], request: GraftRequest) -> GraftReport:
    options = options_of(request)
    shards = expand_existing(urls, allow_pipe=request.allow_pipe)
    tables = [Shard.file(str(path)) for path in options.table.files]
    names = [path.name for path in output_paths(shards, folder, *tables)]
    with OutputRecord(folder, "graft", "grafted", ShardGraft, _REASONS) as record:
        if not request.restart:
            record.refuse_other(options.flags())
        record.refuse_foreign_shards()
        work = folder / INSIDE / _WORK
        first_pass = FirstPass(options, folder, work, shards, request.begin)
        with scratch_folder(work):
            with first_pass.joined() as join:
                # Nothing is written before the join is known to match.
                record.begin(options.flags(), names, inputs=shards, restart=request.restart)
                listing = folder / INSIDE / _UNMATCHED
                unmatched = _list_unmatched(listing, join, first_pass.matches)
            report = GraftReport(
                first_pass.matches,
                list(map(str, options.fields)),
                unmatched,
                str(listing) if unmatched else "",
                _resolution(options, first_pass.matches),
            )
            report.shards = run_outputs(
                [(record, job) for job in first_pass.jobs],
                graft_shard,
                partial(_made_from, first_pass.identity),
                report,
                jobs=options.jobs,
                begin=request.begin,
                runner=run_on_shards,
            )
            record.finish()
        report.check()
    return report


def _made_from(table: object, job: GraftJob) -> dict[str, object]:
    inputs = job.look.inputs or job.shard.identity()
    return {"code": _CODE, "url": job.url, "inputs": inputs, "table": table, "decided": job.decided}


def _resolution(options: GraftOptions, matches: Matches) -> str:
    """Return how ambiguous samples were resolved; "" if none was."""
    if options.ambiguous == "refuse" or not matches.by_rows + matches.by_samples:
        return ""
    several = how_many(matches.by_rows, "sample")
    shared = how_many(matches.by_samples, "sample")
    return (
        f"--ambiguous {options.ambiguous}: {several} with several rows, {shared} with a shared row"
    )


def _list_unmatched(path: Path, join: SampleJoin, matches: Matches) -> list[str]:
    """Write the rows that no sample has, a line each, and return the first of them."""
    if not matches.unmatched_rows:
        path.unlink(missing_ok=True)
        return []
    with (
        atomic_file(path) as file,
        open(file, "w", encoding="utf-8", newline="", closefd=False) as stream,
    ):
        stream.writelines(join.unmatched_lines())
    return join.unmatched(_SHOWN)
