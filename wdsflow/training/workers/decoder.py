"""The main loop of a decoding process.

Chunks come by a pipe. Images go to shared memory, the rest into the answer.
"""

import gc
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from wdsflow.training.feed_options import SampleError
from wdsflow.training.sample_tasks import MadeSample, Task
from wdsflow.training.stalls.loss_tally import FeedLoss

from .decoder_position import SharedPosition
from .sample_work import ChunkWork
from .slots import HeldSlot, Slots, pickle_value, stack_rows

# The last message to a process.
END = b"end"
# Seconds between two checks that the parent is alive.
_PARENT = 2.0


class DecoderSetup(NamedTuple):
    """The number of a decoding process, and what it shares with its parent if it is forked.

    ``total``: how many processes there are.
    """

    number: int
    total: int
    slots: Slots | None
    position: SharedPosition | None


class _Answer(NamedTuple):
    """The results of a chunk, stored by column.

    Stored by sample, they would take three times as long to pickle.

    ``lost``: by the number of the task; the columns have the others. ``images``: a ``HeldSlot`` if
    it is in a slot. ``texts``: an array with a row for each, or a list. ``trace``: if ``error``
    does not explain itself.
    """

    lost: dict[int, FeedLoss]
    images: Sequence[object] = ()
    texts: Iterable[object] = ()
    other_values: Sequence[tuple[object, ...]] = ()
    error: BaseException | None = None
    trace: str = ""


def serve(
    chunks: Connection,
    answers: Connection,
    others: Sequence[Connection],
    work: ChunkWork,
    setup: DecoderSetup,
) -> None:
    """Answer chunks until the last one, or until the parent has died.

    ``others``: the parent's ends of pipes.
    """
    # The parent ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if setup.position is not None:
        setup.position.allow_stack_requests()
    # A pipe ends when all copies of its other end are closed.
    for other in others:
        other.close()
    # Otherwise each starts a thread per processor.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Collecting the parent's objects would copy them.
    gc.freeze()
    gc.enable()
    _imitate_dataloader_worker(setup)
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(
        target=_receive, args=(chunks, waiting), name="wdsflow-chunks", daemon=True
    ).start()
    number = 0
    while True:
        tasks: Sequence[Task] = pickle.loads(waiting.get())  # noqa: S301 - by the parent
        number += 1
        data = _packed(_answer(tasks, number, work, setup))
        try:
            answers.send_bytes(data)
        except OSError:
            # The parent has died.
            os._exit(0)
        # An idle process must not hold images.
        del tasks, data


def read_answer(data: bytes, tasks: Sequence[Task], slots: Slots) -> None:
    """Set the results of tasks from an answer, in the parent process.

    Images are views of their slots. Raises the error of the work.
    """
    answer: _Answer = pickle.loads(data)  # noqa: S301 - by a child of ours
    if answer.error is not None:
        slots.give_back(*(task.slot for task in tasks))
        raise answer.error from (
            RuntimeError(f"in a decoding process:\n{answer.trace}") if answer.trace else None
        )
    columns = zip(answer.images, answer.texts, answer.other_values, strict=True)
    for number, task in enumerate(tasks):
        if number in answer.lost:
            task.result = answer.lost[number]
            slots.give_back(task.slot)
            continue
        image, text, more = next(columns)
        if isinstance(image, HeldSlot):
            image = slots.lend(task.slot, image)
        else:
            slots.give_back(task.slot)
        task.result = MadeSample(image, text, more)


def _imitate_dataloader_worker(setup: DecoderSetup) -> None:
    """Look like a DataLoader's worker, for transforms that ask torch which one they are in."""
    import torch
    from torch.utils.data._utils import worker

    torch.set_num_threads(1)
    worker._worker_info = worker.WorkerInfo(  # noqa: SLF001 - what get_worker_info() returns
        id=setup.number,
        num_workers=setup.total,
        seed=setup.number,
        dataset=None,  # type: ignore[arg-type]  # there is none
    )


def _receive(chunks: Connection, waiting: "queue.SimpleQueue[bytes]") -> None:
    """Receive chunks immediately, so that the parent never waits.

    Ends this process after the last one.
    """
    parent = os.getppid()
    try:
        # Other forks may hold the parent's end too, and keep the pipe open.
        while os.getppid() == parent:
            if chunks.poll(_PARENT):
                data = chunks.recv_bytes()
                if data == END:
                    break
                waiting.put(data)
    except (EOFError, OSError):
        pass
    os._exit(0)


def _answer(tasks: Sequence[Task], number: int, work: ChunkWork, setup: DecoderSetup) -> _Answer:
    note = _ignore_position if setup.position is None else _position_writer(setup.position, number)
    try:
        work(tasks, note)
        lost: dict[int, FeedLoss] = {}
        made: list[MadeSample] = []
        images: list[object] = []
        for task_number, task in enumerate(tasks):
            if isinstance(task.result, FeedLoss):
                lost[task_number] = task.result
                continue
            made.append(task.made)
            image = task.made.image
            images.append(image if setup.slots is None else setup.slots.write(task.slot, image))
        # All tasks are done.
        note(len(tasks) + 1)
        texts = [sample.text for sample in made]
        rows = stack_rows(texts)
        return _Answer(
            lost, images, texts if rows is None else rows, [sample.other_values for sample in made]
        )
    except BaseException as error:  # noqa: BLE001 - raised where training waits
        return _failed(error)


def _ignore_position(task: int) -> None:
    """Nobody asks for the position of a process that is not forked."""


def _position_writer(position: SharedPosition, chunk: int) -> Callable[[int], None]:
    def note(task: int) -> None:
        position.write(chunk, task)

    return note


def _failed(error: BaseException) -> _Answer:
    """Return the answer for an error that is being handled."""
    trace = "" if isinstance(error, SampleError) else traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - whatever the reason, it cannot be sent
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return _Answer({}, error=error, trace=trace)


def _packed(answer: _Answer) -> bytes:
    try:
        return pickle_value(answer)
    except Exception as error:  # noqa: BLE001 - raised where training waits
        what = "what the image transform or the tokenizer returns cannot be sent to the training process"
        failure = SampleError(f"{what}: {error}\nLet it return tensors, arrays, numbers or text.")
        return pickle.dumps(_failed(failure), pickle.HIGHEST_PROTOCOL)
