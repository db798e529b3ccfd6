"""What a cache has done so far."""

from dataclasses import dataclass, replace


@dataclass
class CacheFigures:
    """What a cache did for this process.

    ``hits``: shards that were read from a file; ``saved``: their bytes. ``stored``: shards whose
    download was begun; ``passed``: shards that were read around it. ``downloaded``: bytes from
    servers. ``size``: bytes of all shards in the folder when they were last counted, parts as a
    whole, of at most ``limit``.
    """

    limit: int
    size: int = 0
    hits: int = 0
    stored: int = 0
    passed: int = 0
    saved: int = 0
    downloaded: int = 0

    def since(self, before: "CacheFigures") -> "CacheFigures":
        """Return the figures without those of before."""
        counts = {
            name: getattr(self, name) - getattr(before, name)
            for name in ("hits", "stored", "passed", "saved", "downloaded")
        }
        return replace(self, **counts)
