"""Records where the samples of one input are, and which of them can be copied."""

from array import array
from threading import Event

import numpy as np

from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.source.base import Source

from .input_job import InputJob
from .interleaved import KeysAndFields
from .reshard_report import InputReport
from .row_file import COLUMNS, PIECE, origin_of

# Samples that cannot be copied: what the walk calls them, and the reason in the report.
UNUSABLE = {
    "beside-damage": "next to damage: it may have lost members",
    "sparse-member": "it has a sparse member",
}


def key_bytes(key: str) -> bytes:
    """Return a key as it is in the tar."""
    return key.encode("utf-8", "surrogateescape")


def record_samples(source: Source, job: InputJob, report: InputReport, stop: Event) -> bool:
    """Write the rows and keys of the samples of a tar to the files of ``job``.

    Fills in ``report``.

    Returns whether global headers changed names or sizes.
    Raises SourceError, OSError, InterruptedError after ``stop``.
    """
    samples = Samples(source, contents=False, keep=False)
    recorder = _Recorder(job, report)
    for sample in samples:
        recorder.add(sample)
        if stop.is_set():
            raise InterruptedError("given up")
    recorder.end()
    report.members = samples.members
    report.left_out = samples.left_out
    report.damage += samples.damage
    return samples.global_records


class _Recorder:
    """Collects the rows of one tar, and writes them to the files of ``job`` in pieces."""

    def __init__(self, job: InputJob, report: InputReport) -> None:
        from xxhash import xxh3_64_intdigest

        self._digest = xxh3_64_intdigest
        self._job = job
        self._report = report
        self._rows = job.rows
        self._rows.remove()
        job.key_file.unlink(missing_ok=True)
        # Of the samples that are not yet in the files: four numbers each, and the entries of the
        # file of keys.
        self._numbers = array("Q")
        self._keys: list[bytes] = []
        self._keys_and_fields = KeysAndFields()

    def add(self, sample: TarSample) -> None:
        """Record a sample."""
        report = self._report
        key = key_bytes(sample.key)
        digest = self._digest(key)
        fields: tuple[str, ...] | None = None
        # What is left of a damaged sample has fewer fields than it had.
        if sample.trouble != "beside-damage":
            fields = sample.names or tuple(sample.fields)
            if not report.first[1]:
                report.first = sample.key, fields
            report.last = sample.key, fields
        self._keys_and_fields.add(digest, fields)
        report.samples += 1
        if sample.trouble in UNUSABLE:
            report.dropped[UNUSABLE[sample.trouble]] += 1
            return
        origin = origin_of(report.number, len(sample.fields))
        self._numbers.extend((digest, sample.start, sample.end, origin))
        if self._job.keys:
            self._keys += [len(key).to_bytes(4, "little"), key]
        if len(self._numbers) >= COLUMNS * PIECE:
            self._flush()

    def end(self) -> None:
        """Write the last samples, and complete the report."""
        self._flush()
        self._report.rows = self._rows.count
        interleaved = self._keys_and_fields.interleaved()
        self._report.interleaved = len(interleaved)
        self._report.first_interleaved = min(interleaved, default=0)

    def _flush(self) -> None:
        self._rows.append(np.frombuffer(self._numbers, np.uint64).reshape(-1, COLUMNS))
        if self._keys:
            with open(self._job.key_file, "ab") as file:
                file.writelines(self._keys)
        self._numbers = array("Q")
        self._keys = []
