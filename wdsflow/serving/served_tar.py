"""A tar as it is served, and the layers in which it is made: tars of tars."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from wdsflow.filtering.run_folder import ShardRecord
from wdsflow.shards.source.base import Source

_FORMAT = 1  # of what is served: another would make other bytes of the same shard


@dataclass(frozen=True)
class OpenTar:
    """A tar that is served, open for reading; closes as a context manager.

    Attributes:
        source: its bytes.
        etag: stands for them.
        changed: returns whether a shard that they are made from is another one by now. Raises SourceError, OSError.
    """

    source: Source
    etag: str
    changed: Callable[[], bool]

    @property
    def size(self) -> int:
        """Its bytes."""
        assert self.source.length is not None
        return self.source.length

    def __enter__(self) -> "OpenTar":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()


class Tars(Protocol):
    """The tars of a layer, by their numbers: shards as they are, some of their samples, samples in tars of other sizes.

    Each layer is made of the one below it. Threads may share it. Its functions raise ValueError, such as LedgerError, or
    OSError, such as SourceError, for tars that cannot be served.
    """

    @property
    def urls(self) -> Sequence[str]:
        """What each tar is made of, to be shown."""

    @property
    def filters(self) -> bool:
        """Whether samples may be left out, so that some tars may have none."""

    def prepare(self, number: int) -> None:
        """Decide what a tar consists of, where that is not known."""

    def open(self, number: int) -> OpenTar:
        """Return a tar as it is now."""

    def changed(self, number: int) -> bool:
        """Return whether a shard of a tar is not what it was when it was last opened; False where that takes a request."""

    def count(self, number: int) -> ShardRecord:
        """Return what becomes of its samples."""


def etag_of(*facts: object) -> str:
    """Return what stands for the bytes of a tar; those of ``facts`` that are bytes are taken as they are."""
    from xxhash import xxh3_128

    digest = xxh3_128(repr(_FORMAT).encode())
    for fact in facts:
        digest.update(fact if isinstance(fact, bytes) else repr(fact).encode())
    return digest.hexdigest()
