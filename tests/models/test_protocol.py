"""How a client of model processes handles their answers and their deaths.

Uses a real socket and scripted answers.
"""

import os
import socket
import threading
from collections.abc import Iterator
from multiprocessing.connection import Listener
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.models import own
from wdsflow.engines.messages import receive, send
from wdsflow.memory.batching.attempt import POISONED, Failure, PoisonedError
from wdsflow.models import remote_models
from wdsflow.models.calls import Begun, Loading, ModelCall, NotBegun
from wdsflow.models.loaded import ModelError, PreparedModels
from wdsflow.models.process_files import ended_marker
from wdsflow.models.remote_models import RemoteModels

KEY = b"k" * 32
MODEL = own.Letters().models()[0]
END = "the connection ends"
LETTERS = "the letters of each item"
NEW = "a new connection"


class Process:
    """A stand-in for a model process that gives scripted answers, one list per request."""

    def __init__(self, address: str, *script: list[Any]) -> None:
        self.asked: list[Any] = []
        self.address = address
        self._script = list(script)
        self._listener = Listener(address, "AF_UNIX", authkey=KEY)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while self._script:
            with (
                self._listener.accept() as connection,
                socket.socket(fileno=os.dup(connection.fileno())) as asking,
            ):
                self.asked.append(NEW)
                self._answer(asking)

    def _answer(self, asking: socket.socket) -> None:
        while self._script:
            try:
                ask: ModelCall = receive(asking)
            except EOFError:
                return
            what, *rest = ask
            self.asked.append(
                [list(each) if isinstance(each, (list, tuple)) else each for each in rest[0][1:]]
                or what
            )
            for answer in self._script.pop(0):
                if answer is END:
                    return
                send(asking, [len(item) for item in rest[0][1]] if answer is LETTERS else answer)

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()
        assert not self._thread.is_alive(), "some answers were not asked for"


@pytest.fixture
def address() -> Iterator[str]:
    with TemporaryDirectory() as folder:  # the address of a socket has room for few letters
        yield f"{folder}/0"


def mapped(address: str, items: list[Any], *script: list[Any]) -> tuple[Any, list[Any]]:
    """Return what becomes of items, and what was asked for."""
    process = Process(address, *script)
    models = RemoteModels([address], KEY)
    try:
        found: Any = models.map(MODEL, items)
    except ModelError as error:
        found = str(error)
    models.close()
    process.close()
    return found, process.asked


def test_outputs_come_in_order_over_one_connection(address: str) -> None:
    assert mapped(address, ["a", "bb"], [Begun(), LETTERS]) == ([1, 2], [NEW, [["a", "bb"], []]])
    assert RemoteModels([address], KEY).map(MODEL, []) == []


BOTH = [["a", "bb"], []]


@pytest.mark.parametrize(
    ("script", "asked"),
    [
        pytest.param([[END]] * 7 + [[Begun(), LETTERS]], [NEW, BOTH] * 8, id="it had not begun"),
        pytest.param([[Loading(), END]] * 4 + [[Begun(), LETTERS]], [NEW, BOTH] * 5, id="it loaded the model"),
        pytest.param([[Begun(), END], [Loading(), Begun(), LETTERS]], [NEW, BOTH] * 2, id="it worked, once"),
        pytest.param([[NotBegun()]] * 3 + [[Begun(), LETTERS]], [NEW, BOTH] * 4, id="it sent others away"),
    ],
)  # fmt: skip
def test_where_a_process_ends_the_next_one_is_asked_for_the_same(
    address: str, script: Any, asked: Any
) -> None:
    assert mapped(address, ["a", "bb"], *script) == ([1, 2], asked)


def test_a_process_that_ends_five_times_while_it_loads_has_no_memory_for_the_model(
    address: str,
) -> None:
    lost = "the process that loads the models ended, 5 times: is there memory for them?"
    assert mapped(address, ["a"], *[[Loading(), END]] * 5)[0] == lost


def test_items_at_which_processes_end_twice_are_tried_alone_and_the_last_to_do_it_is_to_blame(
    address: str,
) -> None:
    ends, works = [Begun(), END], [Begun(), LETTERS]
    found, asked = mapped(address, ["a", "bb", "ccc"], ends, ends, works, ends, ends, works)
    assert found == [
        1,
        Failure(POISONED, "the process that runs models ended while it worked on this"),
        3,
    ]
    assert [each for each in asked if each is not NEW] == [
        [["a", "bb", "ccc"], []],
        [["a", "bb", "ccc"], []],
        [["a"], [0]],
        [["bb"], [0]],
        [["bb"], [0]],
        [["ccc"], [0]],
    ]


def test_what_a_process_did_before_its_device_was_lost_is_kept_and_the_suspects_come_last(
    address: str,
) -> None:
    lost = PoisonedError("lost", {0: 10, 2: 30}, (1,))
    found, asked = mapped(
        address, ["a", "bb", "ccc", "dddd"], [Begun(), lost], [Begun(), LETTERS], [Begun(), LETTERS]
    )
    assert found == [10, 2, 30, 4]
    assert asked[1::2][:1] + asked[-2:] == [
        [["a", "bb", "ccc", "dddd"], []],
        [["dddd"], []],
        [["bb"], [0]],
    ]


def test_a_device_that_is_lost_at_nothing_ends_the_call(address: str) -> None:
    assert (
        mapped(address, ["a"], [Begun(), PoisonedError("lost", {})])[0]
        == f"{MODEL.display_name()}: lost"
    )


def test_an_error_of_the_model_is_raised(address: str) -> None:
    assert mapped(address, ["a"], [Begun(), ModelError("no such file")])[0] == "no such file"


def test_what_cannot_be_sent_is_an_error_and_the_next_request_has_a_new_connection(
    address: str,
) -> None:
    process = Process(address, [Begun(), LETTERS], [Begun(), LETTERS])
    models = RemoteModels([address], KEY)
    assert models.map(MODEL, ["a"]) == [1]
    with pytest.raises(
        ModelError, match=r"what a score asks a model for, or its answer, cannot be sent: .*lambda"
    ):
        models.map(MODEL, [lambda: None])
    assert models.map(MODEL, ["a"]) == [1]
    assert process.asked == [NEW, [["a"], []]] * 2
    models.close()
    process.close()


def test_models_are_prepared_again_by_the_process_that_comes_next(address: str) -> None:
    prepared = PreparedModels(("a line",), ())
    for ends in range(4):
        process = Process(address, *[[Begun(), END]] * ends, [Begun(), prepared])
        assert RemoteModels([address], KEY).prepare([MODEL]) == prepared
        assert process.asked == [NEW, "prepare"] * (ends + 1)
        process.close()
    process = Process(address, *[[Begun(), END]] * 5)
    with pytest.raises(ModelError, match="ended, 5 times: is there memory for them"):
        RemoteModels([address], KEY).prepare([MODEL])
    process.close()


def test_a_process_that_does_not_come_is_waited_for_and_then_given_up(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_models, "_PATIENCE", 0.2)
    with pytest.raises(ModelError, match="the process that runs models does not answer"):
        RemoteModels([address], KEY).map(MODEL, ["a"])
    ended_marker(address).touch()
    with pytest.raises(ModelError, match="ended again and again without an output"):
        RemoteModels([address], KEY).map(MODEL, ["a"])
    ended_marker(address).unlink()

    monkeypatch.setattr(remote_models, "_PATIENCE", 600.0)
    models, found = RemoteModels([address], KEY), []
    asking = threading.Thread(target=lambda: found.append(models.map(MODEL, ["a"])))
    asking.start()
    process = Process(address, [Begun(), LETTERS])
    asking.join()
    assert found == [[1]]
    models.close()
    process.close()
