"""Where members come from: a walk over a tar, or what knows as much of members that are nowhere written yet."""

from collections.abc import Mapping
from typing import Protocol

from wdsflow.shards.tar.walk import Row, Seen, WalkStop


class MemberWalk(Protocol):
    """What a scan asks of it."""

    @property
    def stop(self) -> WalkStop | None:
        """How the archive ends; None before it did."""

    @property
    def seen(self) -> Mapping[str, Seen]:
        """What is wrong with the archive."""

    def has_holes(self, member: Row) -> bool:
        """Return whether a member is stored without some of its bytes."""

    def read(self, member: Row, start: int, size: int) -> bytes:
        """Return a part of the contents of a member of the latest batch."""
