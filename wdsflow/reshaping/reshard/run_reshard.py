"""New shards of other sizes, in another order or in parts, from the samples of shards."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path

from wdsflow.records.output_record import OutputRecord
from wdsflow.records.report import run_outputs
from wdsflow.records.shard_jobs import run_on_shards
from wdsflow.records.unfinished import INSIDE
from wdsflow.records.working_folder import working_folder
from wdsflow.shards.atomic import scratch_folder
from wdsflow.shards.shard import Shard
from wdsflow.shards.thread_jobs import Begin
from wdsflow.shards.urls import expand_existing
from wdsflow.text.options import keywords
from wdsflow.text.words import how_many

from .arrange import RowFile, arrange, bounds_of
from .read_inputs import InputJob, OpenInputs, read_input, refuse_apart
from .reshard_options import USUAL_GRID, ReshardOptions, ReshardRequest, checked, parse_grid, parts_of
from .reshard_report import InputReport, OutputReport, PartReport, ReshardReport
from .write_parts import PartJob, made_from, refuse_repeated, write_output

_SCRATCH = "reshard-scratch"
KIND = "reshard"
_DIGITS = 5  # of the numbers in names, as in img2dataset

_REASONS = {"samples": "other samples belong into it", "inputs": "an input changed"}
_Record = OutputRecord[OutputReport]


class NothingRead(ValueError):
    """No input could be read."""


@keywords(ReshardRequest)
def reshard_shards(urls: str | Iterable[str], out: str | os.PathLike[str], request: ReshardRequest) -> ReshardReport:
    """Write the samples of shards into other shards, with ``sizes.json`` and ``__len__`` next to them.

    Samples are copied byte for byte, with their headers; nothing is decoded. The inputs never change. Memory does not
    grow with the data. The same call resumes an interrupted run: finished shards are kept. By default there are as
    many shards as inputs, with equal numbers of samples, in the same order.

    Args:
        urls: shards, as for ``check``.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to, such as ``s3://bucket/prefix``.
        request: each is a keyword argument.

    Raises:
        ValueError: arguments are invalid, urls match nothing, or there are fewer samples than shards.
        MembersApart, RepeatedKeys, NothingRead: the inputs do not allow it; nothing was written.
        OtherOptions: ``out`` holds shards that were written with other options.
        Busy: another run works in ``out``.
        FileExistsError: an output exists that no reshard wrote, or the folder holds an input.
        OSError: an output cannot be written, or an input changed. Finished shards are kept, partial ones removed.
    """
    with working_folder(out) as folder:
        return _into(folder, urls, request).naming(out, folder)


def _into(folder: Path, urls: str | Iterable[str], request: ReshardRequest) -> ReshardReport:
    options = checked(request)
    even_for, jobs, begin = request.even_for, request.jobs, request.begin
    grid = options.divisible_by or USUAL_GRID if even_for is None else parse_grid(even_for, "--even-for")
    found = expand_existing(urls, allow_pipe=request.allow_pipe)
    if jobs < 1:
        raise ValueError("jobs must be at least 1")
    places = [folder / part.name if part.name else folder for part in options.parts]
    _refuse_inputs_inside(found, [folder, *places])
    with ExitStack() as stack:
        root = stack.enter_context(_record(folder))
        records = [root if place == folder else stack.enter_context(_record(place)) for place in places]
        if not request.restart:
            root.refuse_other(options.flags())
        for record in {root, *records}:
            record.refuse_company()
        scratch = folder / INSIDE / _SCRATCH
        stack.enter_context(scratch_folder(scratch))
        work = [
            InputJob(number, url, scratch, options.scattered, options.by_key, request.allow_pipe)
            for number, url in enumerate(found)
        ]
        report = ReshardReport(_read(work, jobs, begin), [], grid)
        report.stale_removed = sum(record.stale for record in {*records, root})
        _write(work, options, (root, records), report, jobs, begin, restart=request.restart)
    return report


def _read(work: Sequence[InputJob], jobs: int, begin: Begin | None) -> list[InputReport]:
    """Look at all inputs. Raises NothingRead, MembersApart."""
    work[0].copies.mkdir()
    done: dict[int, InputReport] = {}
    run_on_shards(work, read_input, lambda job, found: done.update({job.number: found}), jobs, begin)
    found = [done[job.number] for job in work]
    if all(each.unread for each in found):
        others = f" and {how_many(len(found) - 1, 'more shard')}" if len(found) > 1 else ""
        raise NothingRead(f"nothing could be read: {found[0].url}{others}: {found[0].lost[0]}")
    refuse_apart(found)
    return found


def _write(
    inputs: Sequence[InputJob],
    options: ReshardOptions,
    folders: tuple[_Record, Sequence[_Record]],
    report: ReshardReport,
    jobs: int,
    begin: Begin | None,
    *,
    restart: bool,
) -> None:
    """Arrange the samples, and write all outputs into the folders: that of the run, and that of each part."""
    root, records = folders
    rows, outside = arrange(inputs, options, inputs[0].scratch)
    report.left_out = sum((each.dropped for each in report.inputs), Counter[str]()) + outside
    work = list(_planned(rows, options, records, report))
    if options.repeated_keys == "refuse":
        refuse_repeated([job for of_part in work for job in of_part])
    if restart:
        _clear(root, records)
    for record, of_part in zip(records, work, strict=True):
        _begin(record, options, of_part, report)
    all_work = [(record, job) for record, of_part in zip(records, work, strict=True) for job in of_part]
    with closing(OpenInputs(report.inputs, inputs[0].copies, jobs)) as opened:
        write, origin = partial(write_output, opened), partial(made_from, opened)
        done = run_outputs(all_work, write, origin, report, jobs=jobs, begin=begin, label=lambda job: str(job.target))
        opened.refuse_changed()
    outputs = iter(done)
    for part, record, of_part in zip(options.parts, records, work, strict=True):
        report.parts.append(PartReport(part.name, record.folder, list(islice(outputs, len(of_part)))))
        if record.outputs:
            record.finish()
    if report.samples_written and root not in records:
        root.begin(options.flags(), [])
    report.check()


def _planned(
    rows: Sequence[RowFile], options: ReshardOptions, records: Sequence[_Record], report: ReshardReport
) -> Iterator[list[PartJob]]:
    """Yield the outputs of each part. Raises ValueError."""
    total, sources = sum(each.count for each in rows), sum(found.rows > 0 for found in report.inputs)
    for part, record, of_part in zip(options.parts, records, rows, strict=True):
        bounds = bounds_of(of_part, options, sources * of_part.count / max(1, total), part.name)
        digits = max(_DIGITS, len(str(len(bounds) - 1)))
        yield [
            PartJob(of_part, *each, options.scattered, record.folder / f"{number:0{digits}}.tar")
            for number, each in enumerate(bounds)
        ]


def _begin(record: _Record, options: ReshardOptions, work: Sequence[PartJob], report: ReshardReport) -> None:
    """Record the planned outputs, and remove those of an earlier run of other inputs, which readers would also read."""
    names = [job.target.name for job in work]
    if not names and not record.outputs:
        return
    before = record.outputs
    record.begin(options.flags(), names)
    for name in before - set(names):
        if (record.folder / name).exists():
            (record.folder / name).unlink()
            report.removed += 1


def _record(folder: Path) -> _Record:
    return OutputRecord(folder, KIND, "resharded", OutputReport, _REASONS)


def _clear(root: _Record, records: Sequence[_Record]) -> None:
    """Remove the outputs of earlier runs and of their parts; ``records`` are open."""
    known = {record.folder: record for record in (root, *records)}
    flags = root.options or {}
    for name, _ in parts_of(flags.get("--split"), flags.get("--folds")):
        if name and (place := root.folder / name).is_dir():
            with nullcontext(known[place]) if place in known else _record(place) as part:
                part.clear()
    for record in known.values():
        record.clear()


def _refuse_inputs_inside(urls: Iterable[Shard], folders: Iterable[Path]) -> None:
    inside = {os.path.realpath(folder) for folder in folders}
    for url in urls:
        path = url.path
        if path is not None and os.path.dirname(os.path.realpath(path)) in inside:
            raise FileExistsError(f"{path} is an input, and in a folder for outputs: choose another folder for them")
