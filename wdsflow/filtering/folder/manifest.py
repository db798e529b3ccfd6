"""A line for each finished shard, written when all its files are in place."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from wdsflow.shards.atomic import write_file

from .layout import Layout
from .shard_record import ShardRecord


class Manifest:
    """Appends lines to a file; first cuts off the partial line of a killed run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        os.ftruncate(self._file, path.read_bytes().rfind(b"\n") + 1)

    def add(self, record: ShardRecord) -> None:
        """Append a line and sync it. If it raises OSError, the line is not in the file."""
        line = line_of(record)
        size = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(28, "No space left on device")
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, size)
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __enter__(self) -> "Manifest":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def line_of(record: ShardRecord) -> bytes:
    """Return the line of a shard."""
    return json.dumps(record.to_dict(), separators=(",", ":")).encode() + b"\n"


def read_manifests(paths: Iterable[Path], identity: str = "") -> dict[str, ShardRecord]:
    """Return the finished shards by the name of their output.

    Of several lines for one, the last counts; if some are of the run with this identity, the last of these.
    """
    found: dict[str, ShardRecord] = {}
    for path in paths:
        with open(path, "rb") as lines:
            for line in lines:
                try:
                    record = ShardRecord.from_line(line)
                except ValueError:
                    continue  # the partial line of a killed run, or a line of another version: the shard is processed again
                before = found.get(record.name)
                if before is None or before.recipe != identity or record.recipe == identity:
                    found[record.name] = record
    return found


def records_in_order(layout: Layout) -> list[ShardRecord]:
    """Return the finished shards of a run in their order."""
    return sorted(read_manifests(layout.manifests()).values(), key=lambda record: record.shard)


def write_manifest(path: Path, records: Iterable[ShardRecord]) -> None:
    """Write a whole manifest, in the order of the shards."""
    write_file(path, b"".join(line_of(record) for record in sorted(records, key=lambda record: record.shard)))
