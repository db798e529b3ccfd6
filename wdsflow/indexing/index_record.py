"""The record of the files that ``index`` wrote.

Files that another program wrote are replaced only on request.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wdsflow.records.line import OneFile
from wdsflow.records.output_record import OutputRecord
from wdsflow.shards.atomic import write_file
from wdsflow.shards.shard_identity import fingerprint

from .index_report import IndexReport

_REASONS = {"code": "another wdsflow indexed it", "shard": "the shard changed"}


@dataclass
class IndexLine(OneFile):
    """A record line: a file that was written, or what is known of a shard.

    ``facts`` is what is known of a shard. ``made_from`` is the identity of the shards.
    """

    facts: dict[str, object] | None = None


class IndexRecord(OutputRecord[IndexLine]):
    """The files next to shards that runs of ``index`` wrote.

    Files that another program wrote stay, unless they have the same contents.

    Args:
        folder: their folder.
        report: gets what became of each.
        restart: index all shards again, and replace files that something else wrote.
    """

    def __init__(self, folder: Path, report: IndexReport, *, restart: bool) -> None:
        super().__init__(folder, "index", "indexed", IndexLine, _REASONS)
        self.report = report
        self.restart = restart

    def unchanged_line(self, name: str) -> IndexLine | None:
        """Return the line of a file or shard, if the file is as it was written."""
        return self.finished_line(name, dict)[0]

    def is_made_from(self, name: str, source: Mapping[str, object]) -> bool:
        """Return whether a file is as it was written, and was made from the same input."""
        line = self.unchanged_line(name)
        return line is not None and line.made_from == json.loads(json.dumps(source))

    def may_replace(self, name: str) -> bool:
        """Return whether a file may be written.

        True if it does not exist, was written here, or ``restart`` was given.
        """
        if self.restart or not (self.folder / name).exists():
            return True
        return self.unchanged_line(name) is not None

    def write_file(self, name: str, data: bytes, source: Mapping[str, object]) -> None:
        """Write a file, but keep one with other contents that another program wrote.

        Raises OSError.
        """
        path = self.folder / name
        with suppress(OSError):
            if _holds(path, data):
                if self.unchanged_line(name) is not None:
                    self._add_line(name, source)
                self.report.same += 1
                return
        if not self.may_replace(name):
            self.report.kept.append(str(path))
            return
        path.parent.mkdir(exist_ok=True)
        write_file(path, data)
        self.note(name, source)

    def note(self, name: str, source: Mapping[str, object]) -> None:
        """Note that a file was written. Raises OSError."""
        self._add_line(name, source)
        self.report.written.append(str(self.folder / name))

    def unlink(self, name: str) -> None:
        """Remove a file if it is as it was written here. Raises OSError."""
        path = self.folder / name
        if path.is_file() and self.unchanged_line(name) is not None:
            path.unlink()
            self.lines.pop(name, None)
            self.report.removed.append(str(path))

    def _add_line(self, name: str, source: Mapping[str, object]) -> None:
        identity = fingerprint(str(self.folder / name))
        self.add(IndexLine(name=name, made_from=dict(source), identity=identity))


def _holds(path: Path, data: bytes) -> bool:
    """Return whether a file has these contents. Raises OSError."""
    if not path.is_file() or path.stat().st_size != len(data):
        return False
    return path.read_bytes() == data
