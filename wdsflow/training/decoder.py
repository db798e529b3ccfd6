"""What a decoding process does: takes chunks from a pipe, writes pictures into shared slots, answers with the rest."""

import gc
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from .lanes import Task
from .parcels import joined_rows
from .slots import Slots
from .tally import Loss
from .work import Made, Work

END = b"end"  # the last order
_PARENT = 2.0  # seconds between two looks whether there still is one


class Order(NamedTuple):
    """A chunk that is to be done."""

    tasks: Sequence[Task]
    slots: Sequence[int]  # for each task; -1 where there was none


class Answer(NamedTuple):
    """What became of a chunk, but for images that are in their slots."""

    lost: dict[int, Loss]  # by task
    images: dict[int, Any]  # for which there was no slot
    texts: Any  # of all other tasks: an array with a row for each, or a list
    error: BaseException | None = None
    trace: str = ""  # where the error came from


def serve(orders: Connection, answers: Connection, others: Sequence[Connection], work: Work, slots: Slots) -> None:
    """Answer orders until the last one, or until the parent is gone. ``others``: the parent's ends of pipes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:
        other.close()  # a pipe ends when nobody has its other end any more
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # each would start as many threads as there are processors
    gc.freeze()  # collecting what the parent has would copy it
    import torch

    torch.set_num_threads(1)
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(orders, waiting), name="wdsflow-orders", daemon=True).start()
    while True:
        order: Order = pickle.loads(waiting.get())  # noqa: S301 - by the parent
        data = _packed(_answer(order, work, slots))
        try:
            answers.send_bytes(data)
        except OSError:  # the parent is gone: there is nobody to tell
            os._exit(0)


def _receive(orders: Connection, waiting: "queue.SimpleQueue[bytes]") -> None:
    """Take orders while work goes on, so that the parent never waits; end this process when nobody gives any."""
    parent = os.getppid()
    try:
        # Other processes that were forked meanwhile may have the parent's end too, and keep the pipe open.
        while os.getppid() == parent:
            if orders.poll(_PARENT):
                data = orders.recv_bytes()
                if data == END:
                    break
                waiting.put(data)
    except (EOFError, OSError):
        pass
    os._exit(0)


def _answer(order: Order, work: Work, slots: Slots) -> Answer:
    lost: dict[int, Loss] = {}
    images: dict[int, Any] = {}
    texts: list[Any] = []
    try:
        for number, (result, slot) in enumerate(zip(work(order.tasks), order.slots, strict=True)):
            if isinstance(result, Loss):
                lost[number] = result
                continue
            texts.append(result.text)
            if slot < 0:
                images[number] = result.image
            else:
                slots.write(slot, result.image)
        rows = joined_rows(texts)
        return Answer(lost, images, texts if rows is None else rows)
    except BaseException as error:  # noqa: BLE001 - it is raised where training waits
        return _failed(error)


def _failed(error: BaseException) -> Answer:
    """Return the answer for an error that is being handled."""
    trace = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it cannot travel
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return Answer({}, {}, [], error, trace)


def _packed(answer: Answer) -> bytes:
    try:
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - it is raised where training waits
        told = TypeError(f"what the tokenizer gives cannot be sent to another process ({error}): decode in threads")
        return pickle.dumps(_failed(told), pickle.HIGHEST_PROTOCOL)


def opened(answer: Answer, order: Order, slots: Slots) -> list[Made | Loss]:
    """Return the results of an order, images as views of their slots. Raises the error of the work."""
    if answer.error is not None:
        for slot in order.slots:
            slots.give_back(slot)
        raise answer.error from RuntimeError(f"in a decoding process:\n{answer.trace}")
    texts = iter(answer.texts)
    results: list[Made | Loss] = []
    for number, slot in enumerate(order.slots):
        if number in answer.lost:
            slots.give_back(slot)
            results.append(answer.lost[number])
        else:
            results.append(Made(slots.lend(slot) if slot >= 0 else answer.images[number], next(texts)))
    return results
