"""The process of one device: it runs the calls of all workers, one after the other."""

import contextlib
import os
import pickle
import queue
import select
import signal
import socket
import threading
import time
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Listener
from typing import Any, NamedTuple

from wdsflow.engines.messages import receive, send, take_line, when_closed
from wdsflow.memory.batching.allocator import prepare_environment
from wdsflow.memory.batching.attempt import Failure, PoisonedError

from .calls import Begun, Loading, ModelCall, NotBegun, PendingCall, ServerSetup
from .loaded import LoadedModels, ModelError
from .model_costs import device_and_name, write_model_times
from .process_files import PendingCallCount, costs_file, output_marker, remove_files

# Calls that are held: one runs, one is ready; on a GPU a third arrives meanwhile. There each takes
# up to 80 MiB as it arrives and 128 MiB of pinned memory, 0.6 GiB together.
_HELD = 2
_GPU_HELD = 3
# Seconds in which calls are refused while the loss of a device is reported.
_REFUSING = 1.0
# Exit status: this process can no longer use its device.
DEVICE_LOST_STATUS = 70

PendingCalls = queue.SimpleQueue[PendingCall]


class _Reception(NamedTuple):
    """Shared by the threads that receive calls.

    Attributes:
        pending: the calls that wait.
        models: those of this process.
        slots: for the calls that are held.
        call_count: counts the calls, in a file that other processes read.
    """

    pending: PendingCalls
    models: LoadedModels
    slots: threading.Semaphore
    call_count: PendingCallCount


def serve() -> None:
    """Receive a ``ServerSetup`` from the parent process, then answer calls until that ends."""
    # The process that started this one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = take_line(prints=True)
    setup: ServerSetup = receive(line)
    prepare_environment()
    with contextlib.suppress(FileNotFoundError):
        # Of a process before this one.
        os.unlink(setup.address)
    listener = Listener(setup.address, "AF_UNIX", backlog=64, authkey=setup.key)
    models = LoadedModels(setup.device, setup.memory)
    pending: PendingCalls = queue.SimpleQueue()
    slots = threading.Semaphore(_GPU_HELD if setup.device.startswith("cuda") else _HELD)
    reception = _Reception(pending, models, slots, PendingCallCount(setup.address))
    when_closed(line, partial(_end, setup.address))
    threading.Thread(target=_accept, args=(listener, reception), daemon=True).start()
    records = _Records(setup)
    while True:
        _answer(pending.get(), models, pending, records)


class _Records:
    """What the process leaves in files: whether it has computed an output, and what models took."""

    def __init__(self, setup: ServerSetup) -> None:
        self._setup = setup
        self._has_worked = False
        self._device = ""

    def add(self, call: ModelCall, answer: Any, models: LoadedModels) -> None:
        """Record an answer."""
        if not isinstance(answer, list):
            return
        if not self._has_worked and not all(isinstance(output, Failure) for output in answer):
            self._has_worked = True
            with contextlib.suppress(OSError):
                output_marker(self._setup.address).touch()
        if call.method == "map":
            self._device = self._device or device_and_name(self._setup.device)
            with contextlib.suppress(OSError):
                write_model_times(costs_file(self._setup.address), self._device, models.model_times)

    def remove_address(self) -> None:
        """Let later calls go to the next process."""
        with contextlib.suppress(OSError):
            os.unlink(self._setup.address)


def _answer(
    waiting: PendingCall, models: LoadedModels, pending: PendingCalls, records: _Records
) -> None:
    """Run a call, and answer it. Ends the process if the device is lost."""
    answer = _result(waiting, models)
    if isinstance(answer, PoisonedError):
        records.remove_address()
    records.add(waiting.call, answer, models)
    waiting.finish(answer)
    if isinstance(answer, PoisonedError):
        _refuse_pending_calls(pending)
        os._exit(DEVICE_LOST_STATUS)


def _result(waiting: PendingCall, models: LoadedModels) -> Any:
    """Return the result of a call, or the error that is its answer."""
    call = waiting.call
    try:
        # This process replaces another.
        if call.method == "map" and not models.is_loaded(call.arguments[0]):
            _notify(waiting, Loading())
            models.load_and_probe(call.arguments[0])
        _notify(waiting, Begun())
        method = models.map if call.method == "map" else models.prepare
        return method(*call.arguments)
    except (ModelError, PoisonedError) as error:
        return error
    except Exception as error:  # noqa: BLE001 - sent as the answer
        return ModelError(f"{type(error).__name__}: {error}")


def _notify(waiting: PendingCall, message: Loading | Begun) -> None:
    # The worker may have ended.
    with contextlib.suppress(OSError):
        send(waiting.connection, message)


def _refuse_pending_calls(pending: PendingCalls) -> None:
    """Return waiting calls as not begun while the answer is sent.

    So they are not blamed for the end of the process.
    """
    end = time.monotonic() + _REFUSING
    with contextlib.suppress(queue.Empty):
        while True:
            waiting = pending.get(timeout=max(0.0, end - time.monotonic()))
            waiting.finish(NotBegun())


def _accept(listener: Listener, reception: _Reception) -> None:
    while True:
        # It has ended, or is not a worker of this run.
        with contextlib.suppress(OSError, EOFError, AuthenticationError):
            with listener.accept() as connection:
                worker = socket.socket(fileno=os.dup(connection.fileno()))
            try:
                threading.Thread(target=_listen, args=(worker, reception), daemon=True).start()
            except (RuntimeError, MemoryError):
                # No memory for a thread: workers connect again.
                worker.close()


def _listen(worker: socket.socket, reception: _Reception) -> None:
    """Receive the calls of a worker; while enough of them are held, further ones stay with it."""
    with worker, contextlib.suppress(OSError, EOFError):
        while select.select([worker], [], []):
            with reception.call_count, reception.slots:
                try:
                    call = _with_pinned_items(receive(worker), reception.models)
                except (ImportError, AttributeError) as error:
                    text = (
                        f"the process that runs models cannot import what it is asked for: {error}"
                    )
                    send(worker, ModelError(text))
                    continue
                waiting = PendingCall(call, worker, threading.Event(), [])
                reception.pending.put(waiting)
                waiting.done.wait()
            try:
                send(worker, waiting.answer[0])
            except (TypeError, AttributeError, pickle.PicklingError) as error:
                send(worker, ModelError(f"the outputs of a model cannot be sent: {error}"))
            # Otherwise its items stay in memory until the next call.
            del waiting, call


def _with_pinned_items(call: ModelCall, models: LoadedModels) -> ModelCall:
    """Return a call whose items are in memory that the device reads by itself, where it can."""
    if call.method != "map":
        return call
    model, items, alone = call.arguments
    return ModelCall("map", (model, models.pinned_items(model, items), alone))


def _end(address: str) -> None:
    """End because the parent process has ended: if it was killed, it could not remove files."""
    remove_files(address)
    os._exit(1)
