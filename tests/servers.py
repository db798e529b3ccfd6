"""Servers on loopback: S3 (moto in its own process), HTTP with and without ranges, a relay.

The relay counts the requests.
"""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PIECE = 64 << 10
# Headers that a relay has its own of.
_OWN = (
    "transfer-encoding",
    "connection",
    "date",
    "server",
    "content-length",
)


@dataclass
class Asked:
    """One request that a server answered."""

    method: str
    path: str
    range: str | None
    sent: int = 0  # bytes of the body
    token: str | None = None  # its Authorization


@dataclass
class Answer:
    """What a server is about to send."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Log:
    """What a server was asked, and the faults that it has from now on.

    ``cut``: (method, path, range) -> bytes of the body after which the connection breaks, None for
    no fault. ``twist``: changes an answer before it is sent. ``ignored``: headers of requests that
    a relay does not pass on.
    """

    asked: list[Asked] = field(default_factory=list)
    cut: Callable[[Asked], int | None] = lambda asked: None
    twist: Callable[[Asked, Answer], object] = lambda asked, answer: None
    ignored: tuple[str, ...] = ()
    port: int = 0  # of the server that a relay passes requests on to

    def of(self, name: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.path.partition("?")[0].endswith(name)]

    def sent(self, name: str) -> int:
        return sum(asked.sent for asked in self.of(name))

    def clear(self) -> None:
        self.asked.clear()
        self.cut = lambda asked: None
        self.twist = lambda asked, answer: None
        self.ignored = ()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log: Log

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, answer: Answer) -> None:
        """Send an answer, with the faults that the server simulates.

        ``Content-Length`` is that of the body unless it is given.
        """
        asked = Asked(
            self.command,
            self.path,
            self.headers.get("Range"),
            token=self.headers.get("Authorization"),
        )
        self.log.asked.append(asked)
        self.log.twist(asked, answer)
        self.send_response(answer.status)
        answer.headers.setdefault("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.log.cut(asked)
        data = answer.body if cut is None else answer.body[:cut]
        with contextlib.suppress(OSError):
            for at in range(0, len(data), PIECE):
                self.wfile.write(data[at : at + PIECE])
                asked.sent += len(data[at : at + PIECE])
        if cut is not None or len(data) < int(answer.headers["Content-Length"]):
            self.wfile.flush()
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing of connections that a client closed."""


@contextlib.contextmanager
def serving(handler: type[Handler]) -> Iterator[tuple[str, Log]]:
    log = Log()
    server = _Server(("127.0.0.1", 0), type("Bound", (handler,), {"log": log}))
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    ).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", log
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def http_server(
    files: dict[str, bytes],
    *,
    ranges: bool = True,
    says: dict[str, int] | None = None,
    honest: bool = False,
) -> Iterator[tuple[str, Log]]:
    """Serve files over HTTP.

    ``says``: false lengths to report for some files. ``honest``: a server without ranges says so.
    """
    told = says or {}

    class Files(Handler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/").partition("?")[0]
            if name not in files:
                self.answer(Answer(403 if name.startswith("secret") else 404, {}, b""))
                return
            data = files[name]
            length = told.get(name, len(data))
            headers = {
                "ETag": f'"{zlib.crc32(data):08x}"',
                "Last-Modified": "Fri, 01 Jan 2021 00:00:00 GMT",
            }
            if ranges:
                headers["Accept-Ranges"] = "bytes"
            elif honest:
                headers["Accept-Ranges"] = "none"
            status, asked = 200, self.headers.get("Range")
            if ranges and asked and not data:
                status, headers["Content-Range"] = 416, "bytes */0"
            elif ranges and asked:
                first, last = asked.removeprefix("bytes=").split("-")
                start, stop = int(first), min(int(last or length - 1), length - 1) + 1
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{length}"
                status, data, length = 206, data[start:stop], stop - start
            self.answer(Answer(status, {**headers, "Content-Length": str(length)}, data))

        do_HEAD = do_GET  # noqa: N815

    with serving(Files) as served:
        yield served


@contextlib.contextmanager
def relay(port: int) -> Iterator[tuple[str, Log]]:
    """Pass requests on to a server on this machine, and count."""

    class Relay(Handler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            asked = self.rfile.read(size)
            upstream = http.client.HTTPConnection("127.0.0.1", port)
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in self.log.ignored
            }
            try:
                upstream.request(self.command, self.path, asked or None, headers)
                answer = upstream.getresponse()
                data = answer.read()
            finally:
                upstream.close()
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            headers = {
                name: value for name, value in answer.getheaders() if name.lower() not in _OWN
            }
            self.answer(
                Answer(answer.status, {**headers, "Content-Length": length or str(len(data))}, data)
            )

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    with serving(Relay) as served:
        yield served


@contextlib.contextmanager
def s3_server() -> Iterator[tuple[str, int, Log]]:
    """Run moto's S3 in its own process.

    Yields the URL of a relay in front of it, its own port, and the log.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"},
    )
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None:
                    raise
                time.sleep(0.05)
        with relay(port) as (url, log):
            yield url, port, log
    finally:
        process.kill()
        process.wait()


def use_s3(patch: pytest.MonkeyPatch, url: str, folder: Path) -> None:
    """Point libraries, and processes started from now on, to the S3 server.

    ``folder`` must not contain AWS configuration files.
    """
    settings = {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "AWS_CONFIG_FILE": str(folder / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in settings.items():
        patch.setenv(name, value)
    import fsspec

    fsspec.get_filesystem_class("s3").clear_instance_cache()  # those of another server


def put(port: int, path: str, data: bytes | dict[str, object]) -> None:
    """Create a bucket (``path`` without a key), or write an object.

    With a dict and ``?policy``, set who may read the bucket.
    """
    body = json.dumps(data).encode() if isinstance(data, dict) else data
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", data=body, method="PUT")
    request.add_header("Content-Type", "application/octet-stream")  # not a form
    request.add_header(
        "Authorization",
        "AWS4-HMAC-SHA256 Credential=x/20200101/us-east-1/s3/aws4_request, Signature=x",
    )
    urllib.request.urlopen(request).close()
