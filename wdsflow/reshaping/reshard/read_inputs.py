"""The first pass over an input.

Records where the samples are, and decides which file the second pass reads.
"""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

from wdsflow.pieces.tar_members import moved_member
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.atomic import UNREADABLE, atomic_file
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import fingerprint, input_identity
from wdsflow.shards.source.base import Piece, SourceError
from wdsflow.shards.source.opening import CompressionFaults, open_source, seekable, unpack
from wdsflow.text.words import how_many

from .input_job import InputJob
from .open_inputs import refuse_changed
from .record_samples import UNUSABLE, record_samples
from .reshard_report import InputReport


def read_input(job: InputJob, stop: Event) -> InputReport:
    """Record the samples of an input in the files of ``job``, in order.

    Errors of reading are in the report.

    Raises OSError if the scratch folder cannot be written.
    """
    reader = _InputReader(job, stop)
    try:
        reader.read()
        report = reader.report
    except OSError as error:
        if not isinstance(error, SourceError) and error.errno not in UNREADABLE:
            raise
        job.rows.remove()
        damage = [*reader.report.damage, str(error)]
        report = InputReport(job.number, job.url, damage=damage, identity=reader.report.identity)
    report.check()
    return report


class _InputReader:
    """Reads one input, or a copy of it, into ``report``."""

    def __init__(self, job: InputJob, stop: Event) -> None:
        self.report = InputReport(job.number, job.url)
        self._job = job
        self._stop = stop
        # The faults of the compressed bytes, which a copy does not show.
        self._packing = CompressionFaults()

    def read(self) -> None:
        """Read it. Raises SourceError, OSError, InterruptedError after the stop."""
        self.report.identity = input_identity(self._job.url)
        if self._must_be_copied():
            self._copy()
        is_random, has_global_headers = self._record()
        if self.report.lost and not is_random:
            # Whether the samples of a damaged stream are valid is only known at its end.
            self.report = InputReport(
                self._job.number, self._job.url, identity=self.report.identity
            )
            self._copy()
            _, has_global_headers = self._record()
        if has_global_headers:
            self._replace_global_headers()
        refuse_changed(self.report)

    def _must_be_copied(self) -> bool:
        """Return whether the second pass cannot read the input itself."""
        if self._job.url.is_pipe:
            return True
        if not self._job.anywhere:
            return False
        with open_source(self._job.url) as source:
            is_plain_file = source.fd >= 0
        return not is_plain_file

    def _copy(self) -> None:
        """Copy the input into the scratch folder, unpacked."""
        path = self._job.copies / f"{self._job.number}.tar"
        with (
            open_source(self._job.url, allow_pipe=self._job.allow_pipe) as source,
            atomic_file(path) as file,
        ):
            unpack(source, file, self._job.copies)
        self._packing = CompressionFaults.of(source)
        self.report.path = path
        if self._job.url.is_pipe:
            # Nothing but its output identifies a command.
            self.report.identity = {"url": self._job.url, **fingerprint(str(path))}

    def _record(self) -> tuple[bool, bool]:
        """Record the samples of the input or its copy.

        Returns whether it can be read in any order, and whether global headers changed names or
        sizes.
        """
        with open_source(self.report.location) as source:
            if self.report.path is not None:
                fault = self._packing.copy_to(source)
                if fault:
                    self.report.damage.append(fault)
            elif source.fd >= 0:
                self.report.path = Path(str(self._job.url.path))
            has_global_headers = record_samples(source, self._job, self.report, self._stop)
            return source.is_seekable, has_global_headers

    def _replace_global_headers(self) -> None:
        """Write a copy of the input whose members have their own headers.

        Global headers would not apply in another tar.
        """
        path = self._job.copies / f"{self._job.number}.plain.tar"
        with seekable(self.report.location, self._job.copies) as (source, _):
            if self.report.path is not None:
                self._packing.copy_to(source)
            write_pieces(path, source, self._pieces(Samples(source, contents=False)))
        copy_report = InputReport(self._job.number, self._job.url)
        with open_source(Shard.file(str(path))) as copy:
            record_samples(copy, self._job, copy_report, self._stop)
        if copy_report.rows != self.report.rows:
            raise SourceError(
                "io",
                f"found {how_many(self.report.rows, 'sample')}, and {copy_report.rows:,} with plain headers",
            )
        self.report.path = path

    def _pieces(self, samples: Samples) -> Iterator[Piece]:
        """Yield the members of the samples that can be copied, with new headers."""
        for sample in samples:
            if self._stop.is_set():
                raise InterruptedError("given up")
            if sample.trouble in UNUSABLE:
                continue
            for name, size, data, _, _ in sample.fields.values():
                yield from moved_member(name, data, size)
