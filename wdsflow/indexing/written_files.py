"""Files next to shards: what others wrote there stays, unless it is the same."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wdsflow.records.line import OneFile
from wdsflow.records.output_record import OutputRecord
from wdsflow.shards.atomic import write_file
from wdsflow.shards.shard_identity import fingerprint

Outcome = Literal["written", "same", "kept"]


@dataclass
class IndexLine(OneFile):
    """A file that was written, or what is known of a shard (``facts``): ``made_from`` is the identity of the shards."""

    facts: dict[str, object] | None = None


class WrittenFiles:
    """Writes files into one folder, and remembers which of them it wrote.

    Args:
        folder: where they are.
        record: remembers them from one run to the next.
        force: replace files that others wrote, too.
    """

    def __init__(self, folder: Path, record: OutputRecord[IndexLine], *, force: bool) -> None:
        self._folder, self._record, self.force = folder, record, force

    def is_current(self, name: str, of: Mapping[str, object]) -> bool:
        """Return whether a file is there as it was written, from the same input."""
        found = self._ours(name)
        return found is not None and found.made_from == json.loads(json.dumps(of))

    def may_replace(self, name: str) -> bool:
        """Return whether a file may be written: there is none, it was written here, or ``force`` was given."""
        return self.force or not (self._folder / name).exists() or self._ours(name) is not None

    def put(self, name: str, data: bytes, of: Mapping[str, object]) -> Outcome:
        """Write a file; "kept": there is one with other contents that something else wrote. Raises OSError."""
        path = self._folder / name
        with suppress(OSError):
            if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
                if self._ours(name) is not None:
                    self.note(name, of)
                return "same"
        if not self.may_replace(name):
            return "kept"
        path.parent.mkdir(exist_ok=True)
        write_file(path, data)
        self.note(name, of)
        return "written"

    def note(self, name: str, of: Mapping[str, object]) -> None:
        """Remember that a file was written. Raises OSError."""
        self._record.add(IndexLine(name=name, made_from=dict(of), identity=fingerprint(str(self._folder / name))))

    def remove(self, name: str) -> bool:
        """Remove a file that is as it was written here; return whether there was one. Raises OSError."""
        path = self._folder / name
        if not path.is_file() or self._ours(name) is None:
            return False
        path.unlink()
        self._record.lines.pop(name, None)
        return True

    def _ours(self, name: str) -> IndexLine | None:
        return self._record.known(name, dict)[0]
