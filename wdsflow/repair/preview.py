"""Predicts the members of repaired shards; nothing is written."""

from collections.abc import Iterator
from contextlib import ExitStack

from wdsflow.repair.contents import Contents
from wdsflow.repair.regroup import plan
from wdsflow.repair.sample_fixer import Edits, Field, SampleFixer
from wdsflow.repair.split_samples import Borders
from wdsflow.shards.source.opening import open_source

from .repair_report import ShardRepair
from .repair_shard import meet_halves, read_members


class Preview:
    """The samples of one shard after ``repair`` without options. Use as a context manager.

    Raises SourceError if the shard cannot be read; ValueError if it can only be read from front to back.
    """

    def __init__(self, url: str, moved: Borders, *, allow_pipe: bool = False) -> None:
        self._stack = ExitStack()
        self._report = ShardRepair(url)
        with self._stack:
            source = self._stack.enter_context(open_source(url, allow_pipe=allow_pipe))
            if source.compression is not None or not source.random or source.length is None:
                raise ValueError(f"{url} can only be read from front to back")
            self._contents = Contents(source)
            members, archives = read_members(source, self._report)
            meet_halves(self._stack, moved, self._contents, members, archives, self._report)
            planned = plan(members, archives, self._contents.link_target)
            self._samples, self.dropped, self.fixed = planned.samples, planned.dropped, planned.fixed
            self._stack = self._stack.pop_all()

    def __enter__(self) -> "Preview":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def members(self) -> Iterator[tuple[str, Field, int]]:
        """Yield name, field and size of each member, in order."""
        fixer = SampleFixer(self._contents, Edits())
        for sample in self._samples:
            for field in fixer.fix(sample):
                yield f"{sample.key}.{field.name}", field, fixer.size(field)

    def read(self, field: Field, start: int, size: int) -> bytes:
        """Return a part of a field's contents. Raises OSError."""
        assert field.member is not None  # without options no contents are created
        return self._contents.part(field.member, start, size)
