"""What the server answers: parts, conditions, and refusals."""

import contextlib
import http.client
import json
import random
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.serving.served import Running, ask, served_set, write_set
from wdsflow.shards.urls import expand


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    with served_set(folder) as running:
        yield running


@pytest.fixture(scope="module")
def tar(folder: Path) -> bytes:
    return (folder / "cut" / "00001.tar").read_bytes()


@pytest.fixture
def connection(server: Running) -> Iterator[http.client.HTTPConnection]:
    with contextlib.closing(server.connect()) as connection:
        yield connection


def whole(server: Running) -> bytes:
    """Get a tar over a connection of its own."""
    with contextlib.closing(server.connect()) as connection:
        return ask(connection, "/000001.tar").body


def test_each_tar_is_the_one_that_cut_writes(folder: Path, connection: http.client.HTTPConnection):
    for number in range(3):
        reply = ask(connection, f"/{number:06d}.tar")
        assert reply.status == 200
        assert reply.body == (folder / "cut" / f"{number:05d}.tar").read_bytes()
        assert reply.headers["Content-Length"] == str(len(reply.body))
        assert reply.headers["Accept-Ranges"] == "bytes"
        assert reply.headers["Content-Type"] == "application/x-tar"


def test_a_thousand_random_ranges_are_right(connection: http.client.HTTPConnection, tar: bytes):
    draw, size = random.Random(3), len(tar)
    for number in range(1000):
        first, last = sorted(draw.choices(range(size), k=2))
        asked, wanted = {
            0: (f"{first}-{last}", tar[first : last + 1]),
            1: (f"{first}-", tar[first:]),
            2: (f"-{size - first}", tar[first:]),
            3: (f"{first}-{last + size}", tar[first:]),
        }[number % 4]
        reply = ask(connection, "/000001.tar", Range=f"bytes={asked}")
        start = size - len(wanted) if number % 4 else first
        assert reply.status == 206
        assert reply.body == wanted
        assert reply.headers["Content-Range"] == f"bytes {start}-{start + len(wanted) - 1}/{size}"


@pytest.mark.parametrize("asked", ["bytes={size}-", "bytes=99999999999-", "bytes=-0"])
def test_a_range_that_has_no_byte_is_refused_with_the_size(
    connection: http.client.HTTPConnection, tar: bytes, asked: str
):
    reply = ask(connection, "/000001.tar", Range=asked.format(size=len(tar)))
    assert (reply.status, reply.body) == (416, b"")
    assert reply.headers["Content-Range"] == f"bytes */{len(tar)}"


@pytest.mark.parametrize(
    "asked", ["bytes=5-2", "bytes=", "bytes=-", "lines=1-2", "bytes=0-1,5-6", "bytes=" + "9" * 5000 + "-"]
)
def test_what_is_no_single_range_gets_the_whole_tar(connection: http.client.HTTPConnection, tar: bytes, asked: str):
    reply = ask(connection, "/000001.tar", Range=asked)
    assert (reply.status, reply.body) == (200, tar)


def test_head_gives_the_headers_of_get_without_a_body(connection: http.client.HTTPConnection, tar: bytes):
    reply = ask(connection, "/000001.tar", "HEAD", Range="bytes=0-9")
    assert (reply.status, reply.body, reply.headers["Content-Length"]) == (200, b"", str(len(tar)))
    assert reply.headers["ETag"] == ask(connection, "/000001.tar").headers["ETag"]


def test_conditions_on_the_etag_are_kept(connection: http.client.HTTPConnection, tar: bytes):
    tag = ask(connection, "/000001.tar", "HEAD").headers["ETag"]
    assert tag != ask(connection, "/000000.tar", "HEAD").headers["ETag"]

    def status(**headers: str) -> int:
        return ask(connection, "/000001.tar", **headers).status

    assert status(If_None_Match=tag) == status(If_None_Match=f'"x", W/{tag}') == status(If_None_Match="*") == 304
    assert status(If_None_Match='"x"') == status(If_Match=tag) == status(If_Match="*") == 200
    assert status(If_Match='"x"') == status(If_Match=f"W/{tag}") == 412
    part = ask(connection, "/000001.tar", Range="bytes=1-2", If_Range=tag)
    assert (part.status, part.body) == (206, tar[1:3])
    for other in ('"x"', f"W/{tag}", "Sun, 22 Nov 2026 10:00:00 GMT"):
        assert status(Range="bytes=1-2", If_Range=other) == 200
    not_modified = ask(connection, "/000001.tar", "HEAD", If_None_Match=tag)
    assert (not_modified.status, not_modified.headers["ETag"]) == (304, tag)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_is_read_only(connection: http.client.HTTPConnection, method: str):
    for path in ("/000001.tar", "/999999.tar", "/", "/elsewhere/0.tar"):
        reply = ask(connection, path, method)
        assert reply.status == 405, path
        assert set(reply.headers["Allow"].split(",")) == {"GET", "HEAD"}


@pytest.mark.parametrize(
    "path",
    [
        "/../../../etc/passwd", "/%2e%2e/in/00000.tar", "//etc/passwd", "/in/00000.tar", "/000003.tar", "/0.tar",
        "/0000001.tar", "/000001.tar/", "/000001.tar/..", "/_wdsflow/run.json", "/%00",
    ],
)  # fmt: skip
def test_nothing_else_is_served(connection: http.client.HTTPConnection, path: str):
    assert ask(connection, path).status in (400, 404)


def test_a_page_in_a_browser_that_gives_this_machine_another_name_gets_nothing(
    connection: http.client.HTTPConnection, server: Running
):
    assert ask(connection, "/000001.tar", Host="attacker.example").status == 421
    port = server.url.rstrip("/").rpartition(":")[2]
    assert ask(connection, "/000001.tar", Host=f"localhost:{port}").status == 200


def test_the_list_can_be_globbed_and_the_counts_are_those_of_the_cut(
    folder: Path, connection: http.client.HTTPConnection, server: Running
):
    urls = [f"{server.url}{number:06d}.tar" for number in range(3)]
    assert expand([server.url]).urls == expand([f"{server.url}*.tar"]).urls == expand([server.pattern]).urls == urls
    sizes = json.loads(ask(connection, "/sizes.json").body)
    cut = json.loads((folder / "cut" / "sizes.json").read_bytes())
    assert [*sizes.values()] == [*cut.values()]
    assert ask(connection, "/__len__").body == (folder / "cut" / "__len__").read_bytes()


def test_clients_that_hang_up_and_many_at_once_leave_nothing_open(server: Running, tar: bytes):
    process = psutil.Process(server.process.pid)
    assert whole(server) == tar
    files = process.num_fds()
    held = []
    for _ in range(300):
        client = socket.create_connection(("127.0.0.1", int(server.url.rstrip("/").rpartition(":")[2])))
        client.sendall(b"GET /000001.tar HTTP/1.1\r\nHost: localhost\r\n\r\n")
        held.append(client)
    assert whole(server) == tar
    for client in held:
        client.close()
    with ThreadPoolExecutor(8) as pool:
        assert all(body == tar for body in pool.map(whole, [server] * 50))
    while process.num_fds() > files:
        time.sleep(0.02)
    assert process.num_threads() <= 24  # eight for shards, and those of pyarrow


def test_a_client_that_resets_its_connection_is_no_error_of_the_server(folder: Path):
    with served_set(folder) as server:
        for path in ["000001.tar", "", "sizes.json"] * 60:
            with socket.create_connection(("127.0.0.1", int(server.url.rstrip("/").rpartition(":")[2]))) as client:
                client.sendall(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets
        assert whole(server)
    assert server.errors == "wdsflow: interrupted\n"


def test_curl_resumes_a_download(server: Running, tar: bytes, tmp_path: Path):
    (tmp_path / "part").write_bytes(tar[:1000])
    done = subprocess.run(["curl", "-sSfC", "-", "-o", tmp_path / "part", f"{server.url}000001.tar"], check=False)
    assert done.returncode == 0
    assert (tmp_path / "part").read_bytes() == tar
