"""The samples of a shard as a list: their keys and members, without the contents."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from wdsflow.shards.samples.grouping import group_members
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk


@dataclass(slots=True)
class ListedSample:
    """Neighbouring members that share one key."""

    key: str
    # Offset of the first member's header, bytes from the start of the (uncompressed) tar.
    offset: int
    # field, bytes, offset of its contents.
    members: list[tuple[str, int, int]] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        members = []
        for name, length, offset in self.members:
            members.append({"field": name, "size": length, "offset": offset})
        return {"key": self.key, "offset": self.offset, "members": members}


def first_samples(url: Shard, count: int, *, allow_pipe: bool = False) -> list[ListedSample]:
    """Return the first ``count`` samples of a shard.

    There are fewer, or none, if the shard cannot be read further.
    """
    samples: list[ListedSample] = []
    with suppress(SourceError), open_source(url, allow_pipe=allow_pipe) as source:
        # It adds one by one: those before an error remain.
        samples.extend(islice(listed_samples(source), count))
    return samples


def listed_samples(source: Source) -> Iterator[ListedSample]:
    """Yield the samples of a shard, without their contents.

    Raises SourceError if the shard cannot be read further.
    """
    current: ListedSample | None = None
    walk = Walk(source)
    for begins_sample, key, field_name, (_, length, data, header, _) in group_members(walk):
        if current is None or begins_sample:
            if current is not None:
                yield current
            current = ListedSample(key, header)
        current.members.append((field_name, length, data))
    if current is not None:
        yield current
    if walk.stop is not None and walk.stop.kind in ("unreadable", "error"):
        raise SourceError("io", walk.stop.detail)
