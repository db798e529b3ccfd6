"""One message that all ranks can read, whatever their main threads do."""

import os
import sys
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_ANSWER = timedelta(seconds=5)  # for one request to the store
_CONNECT = timedelta(seconds=60)  # where all ranks start at once, on a busy machine
_FAREWELL = 1.5  # seconds; others look once a second


class Board:
    """One message for all ranks, and words, in the store of torch.distributed. Raises RuntimeError if it is gone."""

    def __init__(self, store: "Store", rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size
        self._store = store
        # Else rank 0 keeps it in its process.
        self._lasts = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"

    def post(self, message: str) -> None:
        """Leave a message, unless there is one."""
        if not self._store.check(["message"]):
            self._store.set("message", message)
        self.acknowledge()

    def read(self) -> str | None:
        """Return the message, None if there is none. Never blocks for long."""
        return self._store.get("message").decode(errors="replace") if self._store.check(["message"]) else None

    def tell(self, name: str, value: str) -> None:
        """Leave a word for the other ranks."""
        self._store.set(f"word/{name}", value)

    def ask(self, name: str, patience: timedelta) -> str:
        """Wait for such a word. Raises RuntimeError if it does not come."""
        self._store.wait([f"word/{name}"], patience)
        return self._store.get(f"word/{name}").decode()

    def acknowledge(self) -> None:
        """Say that this rank has read it."""
        self._store.set(f"read/{self.rank}", "1")

    def known_to_all(self) -> bool:
        """Return whether all ranks have read it."""
        return self._store.check([f"read/{rank}" for rank in range(self.world_size)])

    def is_open(self) -> bool:
        """Return whether torch.distributed is still set up. If not, the store may be gone; torch warns at length then."""
        from torch import distributed

        return bool(distributed.is_initialized())

    def is_over(self) -> bool:
        """Return whether no more should be asked, because the process that keeps the store ends, or all of it has."""
        if not self.is_open():
            return True
        if self._lasts or not self._store.check(["left/0"]):
            return False
        self._store.set(f"left/{self.rank}", "1")
        return True

    def leave(self) -> None:
        """Say that this process ends; if it keeps the store, give the others a moment to hear of it."""
        self._store.set(f"left/{self.rank}", "1")
        if self.rank == 0 and not self._lasts:
            everybody = [f"left/{rank}" for rank in range(self.world_size)]
            until = time.monotonic() + _FAREWELL
            while time.monotonic() < until and not self._store.check(everybody):
                time.sleep(0.05)


def connect() -> Board | None:
    """Return the board of all ranks; None if torch.distributed is not set up, or for a single rank.

    It has a connection of its own: a main thread that blocks in the store holds that connection's lock.
    """
    if "torch" not in sys.modules:
        return None
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return None
    from torch.distributed.distributed_c10d import _get_default_store

    store = own_connection(_get_default_store())
    with suppress(RuntimeError):  # some stores have no timeout
        store.set_timeout(_ANSWER)
    return Board(store, distributed.get_rank(), distributed.get_world_size())


def own_connection(store: Any) -> "Store":
    """Return the same store by a connection of its own, where it has any."""
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # its own docs do so

    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun keeps its store when it restarts ranks
    prefix = f"wdsflow/{attempt}"
    if hasattr(store, "clone"):  # of newer torch
        return PrefixStore(prefix, store.clone())
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if isinstance(store, TCPStore):
        store = TCPStore(store.host, store.port, is_master=False, timeout=_CONNECT, wait_for_workers=False)
    return PrefixStore(prefix, store)
