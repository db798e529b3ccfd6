"""The first samples of a shard, member by member."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from wdsflow.shards.samples.grouping import grouped
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk


@dataclass(slots=True)
class Listed:
    """Neighbouring members that share one key."""

    key: str
    offset: int  # offset of the first member's header, bytes from the start of the (uncompressed) tar
    members: list[tuple[str, int, int]] = field(default_factory=list)  # field, bytes, offset of its contents

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        members = [{"field": name, "size": size, "offset": offset} for name, size, offset in self.members]
        return {"key": self.key, "offset": self.offset, "members": members}


def first_samples(url: str, count: int, *, allow_pipe: bool = False) -> list[Listed]:
    """Return the first ``count`` samples of a shard; fewer, or none, if it cannot be read further.

    Args:
        url: url of the shard.
        count: number of samples.
        allow_pipe: run a ``pipe:`` url in a shell.
    """
    found: list[Listed] = []
    try:
        with open_source(url, allow_pipe=allow_pipe) as source:
            for sample in islice(listed(source), count):
                found.append(sample)  # noqa: PERF402 - what was read before an error counts
    except SourceError:
        pass
    return found


def listed(source: Source) -> Iterator[Listed]:
    """Yield the samples of a shard, contents unread. Raises SourceError where it cannot be read further."""
    current: Listed | None = None
    walk = Walk(source)
    for begins, key, field_name, (_, size, data, header, _) in grouped(walk):
        if current is None or begins:
            if current is not None:
                yield current
            current = Listed(key, header)
        current.members.append((field_name, size, data))
    if current is not None:
        yield current
    if walk.stop is not None and walk.stop.kind in ("unreadable", "error"):
        raise SourceError("io", walk.stop.detail)
