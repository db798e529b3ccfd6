"""The name of a cache file: the url, its version, and the size of the shard in bytes."""

import re
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from wdsflow.shards.shard import Shard, unsigned

_NAME = re.compile(
    r"(?P<url>[0-9a-f]{32})-(?P<version>[0-9a-f]{16})-(?P<size>\d+)(?:\.(?P<boot>[0-9a-f]{8}))?\.(?P<kind>shard|part)"
)
# Another one after each start of the system; Linux.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Hexadecimal digits of the number that plans have for a url.
_NUMBER = 16


class CacheEntry(NamedTuple):
    """A shard that is kept, or, with ``boot``, a part of one that is being written, or was.

    ``boot`` names the time between two starts of the system. After a power failure, a file that was
    not synced may have zeros in place of its last bytes: a part of an earlier time is never used.
    """

    url: str
    version: str
    size: int
    boot: str = ""

    @property
    def name(self) -> str:
        """The name of its file."""
        kind = f"{self.boot}.part" if self.boot else "shard"
        return f"{self.url}-{self.version}-{self.size}.{kind}"

    @property
    def is_part(self) -> bool:
        """Whether it may be incomplete."""
        return bool(self.boot)

    @property
    def number(self) -> int:
        """The number of its url in plans."""
        return int(self.url[:_NUMBER], 16)

    def of_whole_shard(self) -> "CacheEntry":
        """Return the entry of the whole shard."""
        return self._replace(boot="")

    @staticmethod
    def from_name(name: str) -> "CacheEntry | None":
        """Return the entry with this file name; None for a file that the cache did not write.

        >>> entry = CacheEntry("0" * 32, "1" * 16, 2048, boot="abcdef01")
        >>> CacheEntry.from_name(entry.name) == entry, CacheEntry.from_name(entry.of_whole_shard().name) == entry.of_whole_shard()
        (True, True)
        >>> CacheEntry.from_name("0000.tar") is None
        True
        """
        match = _NAME.fullmatch(name)
        if match is None or (match["kind"] == "part") != (match["boot"] is not None):
            return None
        return CacheEntry(match["url"], match["version"], int(match["size"]), match["boot"] or "")


def url_digest(shard: Shard) -> str:
    """Return a digest that identifies the url of a shard.

    Its signature, which may change every day, is ignored.
    """
    return _digest(unsigned(shard.exact), 16)


def url_number(shard: Shard) -> int:
    """Return the number that plans have for a shard; two urls may have the same one."""
    return int(url_digest(shard)[:_NUMBER], 16)


def version_digest(version: str) -> str:
    """Return what names a version of a shard."""
    return _digest(version, 8)


@lru_cache(maxsize=1)
def boot_digest() -> str:
    """Return a digest that identifies the current boot of the system.

    It is constant where the boot cannot be identified.
    """
    boot = ""
    with suppress(OSError):
        boot = _BOOT_ID.read_text()
    return _digest(boot, 4)


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=size).hexdigest()
