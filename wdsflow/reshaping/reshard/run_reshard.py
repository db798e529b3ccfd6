"""New shards of other sizes, in another order or in parts, from the samples of shards."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path

from wdsflow.records.output_record import OutputRecord
from wdsflow.records.shard_jobs import run_on_shards
from wdsflow.records.unfinished import INSIDE
from wdsflow.shards.atomic import scratch_folder
from wdsflow.shards.source.base import local_file, local_folder
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.thread_jobs import Begin
from wdsflow.shards.urls import expand_existing
from wdsflow.text.options import keywords
from wdsflow.text.words import how_many

from .input_report import InputReport, refuse_apart
from .read_inputs import InputJob, read_input
from .reshard_options import USUAL_GRID, Grid, ReshardOptions, ReshardWishes, checked, parse_grid, parts_of
from .reshard_report import OutputReport, ReshardReport
from .write_parts import Ready

_SCRATCH = "reshard-scratch"
KIND = "reshard"

_REASONS = {
    "code": "another wdsflow wrote it",
    "samples": "other samples belong into it",
    "inputs": "an input changed",
}


class NothingRead(ValueError):
    """No input could be read."""


@keywords(ReshardWishes)
def reshard_shards(urls: str | Iterable[str], out: str | os.PathLike[str], wishes: ReshardWishes) -> ReshardReport:
    """Write the samples of shards into other shards, with ``sizes.json`` and ``__len__`` next to them.

    Samples are copied byte for byte, with their headers; nothing is decoded. The inputs never change. Memory does not
    grow with the data. The same call resumes an interrupted run: finished shards are kept. Without wishes, there are
    as many shards as inputs, of equal numbers of samples, in the same order.

    Args:
        urls: shards, as for ``check``.
        out: a folder; it is created if it does not exist.
        wishes: each is a keyword argument.

    Raises:
        ValueError: arguments are invalid, urls match nothing, or there are fewer samples than shards.
        MembersApart, RepeatedKeys, NothingRead: the inputs do not allow it; nothing was written.
        OtherOptions: ``out`` holds shards that were written with other options.
        Busy: another run works in ``out``.
        FileExistsError: an output exists that no reshard wrote, or the folder holds an input.
        OSError: an output cannot be written, or an input changed. Finished shards are kept, partial ones removed.
    """
    options = checked(wishes)
    even_for, jobs = wishes.even_for, wishes.jobs
    grid = options.divisible_by or USUAL_GRID if even_for is None else parse_grid(even_for, "--even-for")
    folder = local_folder(out)
    found = expand_existing(urls)
    if jobs < 1:
        raise ValueError("jobs must be at least 1")
    places = [folder / part.name if part.name else folder for part in options.parts]
    _refuse_inputs_inside(found, [folder, *places])
    with ExitStack() as stack:
        root = stack.enter_context(_record(folder))
        records = [root if place == folder else stack.enter_context(_record(place)) for place in places]
        if not wishes.restart:
            root.refuse_other(options.flags())
        for record in {root, *records}:
            record.refuse_company()
        ready = partial(_clear, root, records) if wishes.restart else None
        run = _Run(found, options, folder, records, jobs, wishes.begin, allow_pipe=wishes.allow_pipe)
        return run.run(root, grid, ready)


class _Run:
    """One run: both passes, and what is between them."""

    def __init__(
        self,
        urls: Sequence[str],
        options: ReshardOptions,
        folder: Path,
        records: list[OutputRecord[OutputReport]],
        jobs: int,
        begin: Begin | None,
        *,
        allow_pipe: bool,
    ) -> None:
        self._urls, self._options, self._records, self._jobs, self._begin = urls, options, records, jobs, begin
        self._scratch = folder / INSIDE / _SCRATCH
        anywhere = options.scattered
        self._inputs = [
            InputJob(number, url, self._scratch, anywhere, options.by_key, allow_pipe)
            for number, url in enumerate(urls)
        ]

    def run(self, root: OutputRecord[OutputReport], grid: Grid, ready: Ready | None) -> ReshardReport:
        """Read, arrange and write, after ``ready`` if nothing refuses it."""
        with scratch_folder(self._scratch):
            (self._scratch / "copies").mkdir()
            return self._all(root, grid, ready)

    def _all(self, root: OutputRecord[OutputReport], grid: Grid, ready: Ready | None) -> ReshardReport:
        from .arrange import arrange
        from .read_inputs import OpenInputs
        from .write_parts import Planned, write_parts

        found = self._read()
        rows, outside = arrange(self._inputs, self._options, self._scratch)
        left_out = sum((each.dropped for each in found), Counter[str]()) + outside
        report = ReshardReport(found, [], grid, left_out)
        report.stale_removed = sum(record.stale for record in {*self._records, root})
        inputs = OpenInputs(found, self._scratch / "copies", self._jobs)
        try:
            parts = [Planned(*each) for each in zip(self._options.parts, self._records, rows, strict=True)]
            write_parts(parts, inputs, self._options, report, self._jobs, self._begin, ready)
        finally:
            inputs.close()
        if report.samples_written and root not in self._records:
            root.begin(self._options.flags(), [])
        report.check()
        return report

    def _read(self) -> list[InputReport]:
        """Look at all inputs. Raises NothingRead, MembersApart."""
        done: dict[int, InputReport] = {}
        run_on_shards(
            self._inputs, read_input, lambda job, found: done.update({job.number: found}), self._jobs, self._begin
        )
        found = [done[job.number] for job in self._inputs]
        if all(each.unread for each in found):
            others = f" and {how_many(len(found) - 1, 'more shard')}" if len(found) > 1 else ""
            raise NothingRead(f"nothing could be read: {found[0].url}{others}: {found[0].lost[0]}")
        refuse_apart(found, lambda each: open_source(str(each.copy or each.url)))
        return found


def _record(folder: Path) -> OutputRecord[OutputReport]:
    return OutputRecord(folder, KIND, "resharded", OutputReport, _REASONS)


def _clear(root: OutputRecord[OutputReport], records: Sequence[OutputRecord[OutputReport]]) -> None:
    """Remove what earlier runs wrote, in their parts as well; ``records`` are open."""
    known = {record.folder: record for record in records}
    flags = root.options or {}
    for name, _ in parts_of(flags.get("--split"), flags.get("--folds")):
        if name and (place := root.folder / name).is_dir():
            with nullcontext(known[place]) if place in known else _record(place) as part:
                _clear_one(part)
    for record in (root, *records):
        _clear_one(record)


def _clear_one(record: OutputRecord[OutputReport]) -> None:
    if record.options is not None:
        record.clear()


def _refuse_inputs_inside(urls: Iterable[str], folders: Iterable[Path]) -> None:
    inside = {os.path.realpath(folder) for folder in folders}
    for url in urls:
        path = local_file(url)
        if path is not None and os.path.dirname(os.path.realpath(path)) in inside:
            raise FileExistsError(f"{path} is an input, and in a folder for outputs: choose another folder for them")
