"""What readers have in common that raise at damage, and group each shard by itself."""

from wdsflow.scan.evidence import Stop

from .base import Fate, Reader


class RaisingReader(Reader):
    """A reader that ends with an exception at the first damage."""

    def at_stop(self, stop: Stop) -> Fate | None:
        """Return a crash for a shard that cannot be opened or is cut inside a member."""
        if stop.kind == "unreadable":
            return Fate("crash", "group", "unreadable-shard", stop.detail)
        if stop.kind == "error":
            return Fate("crash", "group", "truncated-shard", stop.detail)
        return None

    def joins(self, stop: Stop) -> bool:
        """Return False: a sample ends with its shard."""
        return False
