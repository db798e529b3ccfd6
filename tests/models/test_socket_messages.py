"""Values that travel over a socket, whole and in pieces."""

import pickle
import socket
import struct
import threading
from typing import Any

import numpy as np
import pytest

from wdsflow.models.socket_messages import receive, send


def test_values_and_arrays_come_as_they_went():
    def write():
        for value in sent:
            send(one, value)

    one, other = socket.socketpair()
    large = np.arange(300_000, dtype=np.int32).reshape(300, 1000)
    sent: list[Any] = [None, {"a": [1, "b"]}, (large, large[:, ::2], np.zeros((0, 3))), b"", [np.float32(2), large[:1]]]
    with one, other:
        writing = threading.Thread(target=write)
        writing.start()
        found = [receive(other) for _ in sent]
        writing.join()
    assert found[:2] == sent[:2]
    assert found[3] == b""
    for made, given in ((found[2], sent[2]), (found[4], sent[4])):
        assert type(made) is type(given)
        assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(made, given, strict=True))
    found[2][0][0, 0] = 7  # it is the receiver's own


def test_an_array_is_a_part_of_its_own_behind_the_numbers_of_bytes():
    one, other = socket.socketpair()
    with one, other:
        send(one, np.arange(4, dtype=np.uint8))
        count, first, second = struct.unpack("<3Q", other.recv(24))
        assert (count, second) == (2, 4)
        data = other.recv(first)
        assert len(data) == first
        assert pickle.loads(data, buffers=[bytearray(other.recv(9))]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kept", [0, 5, 8, 20])
def test_an_end_that_comes_early_is_an_error(kept):
    one, other = socket.socketpair()
    third, fourth = socket.socketpair()
    with one, other, third, fourth:
        send(one, b"x" * 100)
        third.sendall(other.recv(1000)[:kept])
        third.close()
        with pytest.raises(EOFError, match="the other end is gone"):
            receive(fourth)
