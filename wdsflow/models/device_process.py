"""The process that runs models on one device: started, replaced when it ends, and ended."""

import threading
from contextlib import suppress

from wdsflow.engines.peer import Peer
from wdsflow.engines.retries import SERVERS

from .calls import ServerSetup
from .process_files import ended_marker, output_marker

_SERVER = "from wdsflow.models.server import serve; serve()"
# A batch takes hundreds of MB in large pieces. By default, glibc maps and unmaps each: a third of
# the time of a small CLIP. Other C libraries ignore these names. Memory is returned only when it is
# short: see HostDevice.release.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
# An idle thread would spin and occupy the core of a decoder: with another busy process on two
# cores, EasyOCR's detector takes five times as long.
_CPU = _ALLOCATOR | {"OMP_WAIT_POLICY": "PASSIVE"}
# For a GPU only windows of items pass through this memory. It is reused in one arena, so that
# threads that receive them need not wait for new pages, and is returned if half a GiB is idle, as
# after weights were loaded.
_GPU = _ALLOCATOR | {"MALLOC_TRIM_THRESHOLD_": str(1 << 29), "MALLOC_ARENA_MAX": "1"}


class DeviceProcess:
    """The process of one device, which is started again when it ends.

    It ends for instance when it loses its device.

    After ``SERVERS`` processes in a row that ended without an output none is started any more.
    """

    def __init__(self, setup: ServerSetup) -> None:
        self.setup = setup
        self._lock = threading.Lock()
        # ``end`` was called.
        self._ended = False
        self._peer = self._start()
        threading.Thread(target=self._replace, name="wdsflow-models", daemon=True).start()

    def end(self) -> None:
        """End the process, for good."""
        with self._lock:
            self._ended = True
            self._peer.end()
        self._peer.close()

    def _replace(self) -> None:
        """Wait until the process ends, and start another one, again and again."""
        processes_without_output = 0
        while True:
            self._peer.wait()
            with self._lock:
                if self._ended:
                    return
                self._peer.close()
                if self._had_output():
                    processes_without_output = 0
                else:
                    processes_without_output += 1
                if processes_without_output >= SERVERS:
                    ended_marker(self.setup.address).touch()
                    return
                self._peer = self._start()

    def _had_output(self) -> bool:
        """Return whether the process that ended has computed an output.

        The mark is removed, so the next process begins without output.
        """
        mark = output_marker(self.setup.address)
        has_worked = mark.exists()
        mark.unlink(missing_ok=True)
        return has_worked

    def _start(self) -> Peer:
        environment = _CPU if self.setup.device == "cpu" else _GPU
        peer = Peer(_SERVER, environment=environment)
        # A process that has ended already is replaced.
        with suppress(OSError):
            peer.send(self.setup)
        return peer
