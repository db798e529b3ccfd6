"""Servers that accept connections and never answer, or stop midway.

Each request must end, and report what it is waiting for.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

pytest.importorskip("fsspec")

from fsspec import AbstractFileSystem

from tests.servers import use_s3
from tests.shards.archives import JPEG, write_tar
from wdsflow.records.object_store.store import Store
from wdsflow.records.object_store.store_objects import StoreError
from wdsflow.shards.source import limits
from wdsflow.shards.source.base import SourceError, single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.source.remote import file_facts, filesystem, list_shards

LIMIT = 1.0  # seconds of silence
NO_ANSWER = r"no answer from the server for 1 s; WDSFLOW_REMOTE_TIMEOUT=5 waits longer"


class Silent:
    """A server that accepts connections and never answers.

    With ``headers``, it sends these and ``body``, which may be shorter than announced, and then
    nothing.

    ``accepted``: the number of connections.
    """

    def __init__(self) -> None:
        self.headers = self.body = b""
        self.accepted = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._held: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.accepted += 1
                self._held.append(connection)
                if self.headers:
                    threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while request := connection.recv(4000):
                connection.sendall(
                    self.headers if request.startswith(b"HEAD") else self.headers + self.body
                )

    def close(self) -> None:
        for each in (self._socket, *self._held):
            each.close()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Silent]:
    """A silent server, which s3 finds, too."""
    monkeypatch.setenv("WDSFLOW_REMOTE_TIMEOUT", str(LIMIT))
    monkeypatch.setattr(limits, "_QUIET", 0.2)
    monkeypatch.setattr(limits, "_AGAIN", 0.1)
    monkeypatch.setattr(limits, "_waiting", limits._UnansweredRequests())
    server = Silent()
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("s3fs")
    use_s3(monkeypatch, server.url, tmp_path)
    fsspec.get_filesystem_class("http").clear_instance_cache()
    fsspec.register_implementation("plain", PlainSystem, clobber=True)
    monkeypatch.setattr(PlainSystem, "port", server.port)
    yield server
    server.close()
    for name in ("http", "s3"):
        fsspec.get_filesystem_class(name).clear_instance_cache()


class PlainSystem(AbstractFileSystem):  # type: ignore[misc]  # it has no types
    """A file system of fsspec that has no limits, as most have none."""

    protocol = "plain"
    cachable = False
    port = 0

    def _ask(self, *_: object, **__: object) -> NoReturn:
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"ls")
            connection.recv(1)
        raise AssertionError("it answers")

    _open = info = ls = cat_file = find = put_file = _ask


REQUESTS: dict[str, Callable[[str, Path], object]] = {
    "s3 read": lambda _, __: open_source(single_shard("s3://bucket/a.tar")),
    "s3 list": lambda _, __: list_shards("s3://bucket/"),
    "s3 facts": lambda _, __: file_facts(single_shard("s3://bucket/a.tar")),
    "s3 write": lambda _, folder: Store("s3://bucket/out", folder).__enter__(),
    "http read": lambda url, _: open_source(single_shard(f"{url}/a.tar")),
    "http list": lambda url, _: list_shards(f"{url}/"),
    "http facts": lambda url, _: file_facts(single_shard(f"{url}/a.tar")),
    "plain read": lambda _, __: open_source(single_shard("plain://bucket/a.tar")),
    "plain list": lambda _, __: list_shards("plain://bucket/"),
    "plain facts": lambda _, __: file_facts(single_shard("plain://bucket/a.tar")),
    "plain write": lambda _, folder: Store("plain://bucket/out", folder).__enter__(),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_to_a_server_that_never_answers_ends_and_is_reported(
    silent: Silent, tmp_path: Path, caplog, name
):
    begun = time.monotonic()
    with pytest.raises((SourceError, StoreError), match=NO_ANSWER):
        REQUESTS[name](silent.url, tmp_path)
    assert time.monotonic() - begun < 20 * LIMIT
    assert silent.accepted <= 4  # of http, facts are asked for in two ways
    scheme, request = name.split()
    bucket = silent.url if scheme == "http" else f"{scheme}://bucket"
    place = f"{bucket}/{ {'list': '', 'write': 'out'}.get(request, 'a.tar') }"
    messages = [record.getMessage() for record in caplog.records if record.name == limits.__name__]
    assert messages
    assert messages[0].startswith(f"wdsflow: waiting for {place}: no answer for ")
    assert messages[0].endswith("(limit: 1 s of silence, WDSFLOW_REMOTE_TIMEOUT)")
    # A request that cannot be ended goes on: it is not made again.
    assert (f"wdsflow: {place} did not answer; trying again" in caplog.text) == (scheme != "plain")


def test_a_server_that_stops_in_the_middle_of_a_file_is_not_waited_for(silent: Silent):
    silent.headers = b"HTTP/1.1 206 x\r\nContent-Length: 5000\r\nContent-Range: bytes 0-4999/5000\r\nETag: x\r\n\r\n"
    silent.body = bytes(600)
    with pytest.raises(SourceError, match=NO_ANSWER):
        open_source(single_shard(f"{silent.url}/a.tar"))
    with pytest.raises(SourceError, match=NO_ANSWER):
        open_source(single_shard("s3://bucket/a.tar"))


def test_a_server_that_takes_no_bytes_of_a_large_object_is_not_waited_for(
    silent: Silent, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(limits, "_SLOWEST", 1 << 30)
    (tmp_path / "large").write_bytes(bytes(64 << 20))
    system = filesystem("s3://bucket/large")[0]
    begun = time.monotonic()
    with pytest.raises(OSError, match=r"[Tt]imeout"):
        system.put_file(str(tmp_path / "large"), "bucket/large")
    assert time.monotonic() - begun < 20 * LIMIT


@pytest.mark.parametrize("name", ["facts", pytest.param("list", marks=pytest.mark.deep)])
def test_the_hub_is_not_waited_for(silent: Silent, monkeypatch, name):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "ENDPOINT", silent.url)
    from huggingface_hub import HfFileSystem
    from huggingface_hub.utils import _http

    HfFileSystem.clear_instance_cache()
    monkeypatch.setattr(_http, "_GLOBAL_CLIENT_FACTORY", _http.default_client_factory)
    _http.close_session()
    begun = time.monotonic()
    pinned = "hf://datasets/org/set@0123456789012345678901234567890123456789"
    ask, url = (
        (file_facts, single_shard(f"{pinned}/a.tar"))
        if name == "facts"
        else (list_shards, f"{pinned}/*.tar")
    )
    with pytest.raises(SourceError, match="the hub cannot be reached"):
        ask(url)
    assert time.monotonic() - begun < 60
    _http.close_session()
    HfFileSystem.clear_instance_cache()


def test_a_command_that_writes_to_a_silent_store_says_so_and_ends(silent: Silent, tmp_path: Path):
    (tmp_path / "in").mkdir()
    write_tar(tmp_path / "in/0.tar", [("a.jpg", JPEG), ("a.txt", b"a")])
    begun = time.monotonic()
    words = [sys.executable, "-m", "wdsflow", "repair", "in", "-o", "s3://bucket/out"]
    done = subprocess.run(
        words, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "wdsflow: s3://bucket/out did not answer; trying again\n" in done.stderr
    assert "wdsflow: cannot write: no answer from the server for 1 s" in done.stderr
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("text", ["x", "0", "-1", "inf", "nan"])
def test_a_limit_that_is_no_number_of_seconds_is_refused(silent: Silent, monkeypatch, text):
    monkeypatch.setenv("WDSFLOW_REMOTE_TIMEOUT", text)
    with pytest.raises(
        SourceError, match=f"WDSFLOW_REMOTE_TIMEOUT is '{text}': it is how many seconds"
    ):
        filesystem("s3://bucket/a")
    assert silent.accepted == 0


def test_limits_of_the_user_are_kept(monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("s3fs")
    monkeypatch.setitem(
        fsspec.config.conf,
        "s3",
        {"config_kwargs": {"read_timeout": 7, "retries": {"mode": "standard"}}},
    )
    system = filesystem("s3://bucket/a")[0]
    assert system._prepare_config_kwargs()["read_timeout"] == 7
    assert system._prepare_config_kwargs()["connect_timeout"] == 60
    assert system.config_kwargs["retries"] == {"mode": "standard"}
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def test_one_message_in_a_while_for_all_requests_and_none_for_quick_ones(monkeypatch, caplog):
    monkeypatch.setattr(limits, "_QUIET", 0.2)
    monkeypatch.setattr(limits, "_waiting", limits._UnansweredRequests())
    with contextlib.ExitStack() as stack:
        stack.enter_context(limits.slow_request_reported("s3://bucket/large", 10 * limits._QUICK))
        for number in range(20):
            stack.enter_context(
                limits.slow_request_reported(f"https://me:word@host/{number}?token=x")
            )
        time.sleep(1.2)
    messages = [record.getMessage() for record in caplog.records if record.name == limits.__name__]
    assert len(messages) == 1
    assert "waiting for https://***@host/0?token=***: no answer" in messages[0]
