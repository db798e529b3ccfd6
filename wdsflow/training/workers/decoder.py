"""The main loop of a decoding process: chunks come by a pipe; images go to shared memory, the rest into the answer."""

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
from wdsflow.training.sample_tasks import Task
from wdsflow.training.stalls.loss_tally import FeedLoss

from .decoder_deaths import Whereabouts
from .sample_work import MadeSample, MixedWork
from .slots import HeldSlot, Slots, joined_rows, packed

END = b"end"  # the last order
_PARENT = 2.0  # seconds between two checks that the parent is alive


class DecodeOrder(NamedTuple):
    """A chunk to be decoded."""

    tasks: Sequence[Task]
    slots: Sequence[int]  # for each task; -1 if none was free


class Answer(NamedTuple):
    """The results of a chunk."""

    lost: dict[int, FeedLoss]  # by task
    images: list[object]  # of the other tasks; ``HeldSlot`` if in a slot
    texts: Iterable[object]  # of the same: an array with a row for each, or a list
    more: Iterable[tuple[object, ...]] = ()  # of the same: other columns
    error: BaseException | None = None
    trace: str = ""  # of the error, if its message does not explain it


class Seat(NamedTuple):
    """The number of a process among ``total``, and its shared memory."""

    number: int
    total: int
    slots: Slots | None
    where: Whereabouts | None


def serve(orders: Connection, answers: Connection, others: Sequence[Connection], work: MixedWork, seat: Seat) -> None:
    """Answer orders until the last one, or until the parent has died. ``others``: the parent's ends of pipes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if seat.where is not None:
        seat.where.listen()
    for other in others:
        other.close()  # a pipe ends when all copies of its other end are closed
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # otherwise each starts a thread per processor
    gc.freeze()  # collecting the parent's objects would copy them
    gc.enable()
    _be_a_worker(seat)
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(orders, waiting), name="wdsflow-orders", daemon=True).start()
    number = 0
    while True:
        order: DecodeOrder = pickle.loads(waiting.get())  # noqa: S301 - by the parent
        number += 1
        data = _packed(_answer(order, number, work, seat))
        try:
            answers.send_bytes(data)
        except OSError:  # the parent has died
            os._exit(0)


def _be_a_worker(seat: Seat) -> None:
    """Look like a DataLoader's worker, for transforms that ask torch which one they are in."""
    import torch
    from torch.utils.data._utils import worker

    torch.set_num_threads(1)
    worker._worker_info = worker.WorkerInfo(  # noqa: SLF001 - what get_worker_info() returns
        id=seat.number,
        num_workers=seat.total,
        seed=seat.number,
        dataset=None,  # type: ignore[arg-type]  # there is none
    )


def _receive(orders: Connection, waiting: "queue.SimpleQueue[bytes]") -> None:
    """Receive orders at once, so that the parent never waits; end this process after the last one."""
    parent = os.getppid()
    try:
        # Other forks may hold the parent's end too, and keep the pipe open.
        while os.getppid() == parent:
            if orders.poll(_PARENT):
                data = orders.recv_bytes()
                if data == END:
                    break
                waiting.put(data)
    except (EOFError, OSError):
        pass
    os._exit(0)


def _answer(order: DecodeOrder, number: int, work: MixedWork, seat: Seat) -> Answer:
    lost: dict[int, FeedLoss] = {}
    images: list[object] = []
    texts: list[object] = []
    more: list[tuple[object, ...]] = []
    where, slots = seat.where, seat.slots
    note: Callable[[int], None] = (lambda _: None) if where is None else lambda task: where.note(number, task)
    try:
        for task, (result, slot) in enumerate(zip(work(order.tasks, note), order.slots, strict=True)):
            if isinstance(result, FeedLoss):
                lost[task] = result
                continue
            texts.append(result.text)
            more.append(result.more)
            images.append(result.image if slots is None else slots.write(slot, result.image))
        note(len(order.tasks) + 1)  # all tasks are done
        rows = joined_rows(texts)
        return Answer(lost, images, texts if rows is None else rows, more)
    except BaseException as error:  # noqa: BLE001 - raised where training waits
        return _failed(error)


def _failed(error: BaseException) -> Answer:
    """Return the answer for an error that is being handled."""
    trace = "" if isinstance(error, SampleError) else traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - whatever the reason, it cannot be sent
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return Answer({}, [], [], error=error, trace=trace)


def _packed(answer: Answer) -> bytes:
    try:
        return packed(answer)
    except Exception as error:  # noqa: BLE001 - raised where training waits
        what = "what the image transform or the tokenizer returns cannot be sent to the training process"
        failure = SampleError(f"{what}: {error}\nLet it return tensors, arrays, numbers or text.")
        return pickle.dumps(_failed(failure), pickle.HIGHEST_PROTOCOL)


def opened(data: bytes, order: DecodeOrder, slots: Slots) -> list[MadeSample | FeedLoss]:
    """Return the results in an answer; images are views of their slots. Raises the error of the work."""
    answer: Answer = pickle.loads(data)  # noqa: S301 - by a child of ours
    if answer.error is not None:
        slots.give_back(*order.slots)
        raise answer.error from (RuntimeError(f"in a decoding process:\n{answer.trace}") if answer.trace else None)
    images, texts, more = iter(answer.images), iter(answer.texts), iter(answer.more)
    results: list[MadeSample | FeedLoss] = []
    for task, slot in enumerate(order.slots):
        image = None if task in answer.lost else next(images)
        if isinstance(image, HeldSlot):
            image = slots.lend(slot, image)
        else:
            slots.give_back(slot)
        results.append(answer.lost[task] if task in answer.lost else MadeSample(image, next(texts), next(more)))
    return results
