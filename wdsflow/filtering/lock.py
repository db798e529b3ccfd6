"""One run at a time in a folder."""

from wdsflow.shards.lock import Busy, Lock

__all__ = ["Busy", "Lock"]
