"""The first samples of a shard, member by member."""

from dataclasses import dataclass, field
from typing import Any

from wdsflow.scan.naming import key_of
from wdsflow.shards.source.base import SourceError
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
            for batch in Walk(source, contents=False):
                if batch.beyond:
                    break
                for member in batch.members:
                    split = key_of(member.name) if member.kind in ("file", "sparse") else None
                    if split is None:
                        continue
                    if not found or found[-1].key != split[0]:
                        if len(found) == count:
                            return found
                        found.append(Listed(split[0], member.header))
                    found[-1].members.append((split[1], member.size, member.data))
    except SourceError:
        pass
    return found
