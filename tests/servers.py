"""Servers on loopback: S3 by moto in a process of its own, http with and without ranges, and a relay that counts."""

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECE = 64 << 10


@dataclass
class Asked:
    """One request that a server answered."""

    method: str
    path: str
    range: str | None
    sent: int = 0  # bytes of the body


@dataclass
class Log:
    """What a server was asked, and the faults that it has from now on.

    ``cut``: (method, path, range) -> bytes of the body after which the connection breaks, None for no fault.
    """

    asked: list[Asked] = field(default_factory=list)
    cut: Callable[[Asked], int | None] = lambda asked: None

    def of(self, name: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.path.partition("?")[0].endswith(name)]

    def sent(self, name: str) -> int:
        return sum(asked.sent for asked in self.of(name))

    def clear(self) -> None:
        self.asked.clear()
        self.cut = lambda asked: None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log: Log

    def log_message(self, *_: object) -> None:
        pass

    def body(self, data: bytes) -> None:
        """Send a body, or the start of it where the fault says so."""
        asked = Asked(self.command, self.path, self.headers.get("Range"))
        self.log.asked.append(asked)
        if self.command == "HEAD":
            return
        cut = self.log.cut(asked)
        data = data if cut is None else data[:cut]
        with contextlib.suppress(OSError):
            for at in range(0, len(data), PIECE):
                self.wfile.write(data[at : at + PIECE])
                asked.sent += len(data[at : at + PIECE])
        if cut is not None:
            self.wfile.flush()
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True


@contextlib.contextmanager
def serving(handler: type[Handler]) -> Iterator[tuple[str, Log]]:
    log = Log()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (handler,), {"log": log}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", log
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def http_server(
    files: dict[str, bytes], *, ranges: bool = True, says: dict[str, int] | None = None, honest: bool = False
) -> Iterator[tuple[str, Log]]:
    """Serve files; ``says``: other lengths than the true ones; ``honest``: without ranges, say so."""
    told = says or {}

    class Files(Handler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/").partition("?")[0]
            if name not in files:
                self.send_response(403 if name.startswith("secret") else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                self.body(b"")
                return
            data = files[name]
            length = told.get(name, len(data))
            asked = self.headers.get("Range")
            if ranges and asked:
                first, last = asked.removeprefix("bytes=").split("-")
                start, stop = int(first), min(int(last or length - 1), length - 1) + 1
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{length}")
                data, length = data[start:stop], stop - start
            else:
                self.send_response(200)
            if ranges:
                self.send_header("Accept-Ranges", "bytes")
            elif honest:
                self.send_header("Accept-Ranges", "none")
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.body(data)
            if len(data) < length:
                self.close_connection = True

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
            try:
                upstream.request(self.command, self.path, asked or None, dict(self.headers))
                answer = upstream.getresponse()
                data = answer.read()
            finally:
                upstream.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "date", "server", "content-length"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(data)))
            self.end_headers()
            self.body(data)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    with serving(Relay) as served:
        yield served


@contextlib.contextmanager
def s3_server() -> Iterator[tuple[str, int, Log]]:
    """Run moto's S3 in a process of its own; yields the url of a relay in front of it, its own port, and the log."""
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


def put(port: int, path: str, data: bytes | dict[str, object]) -> None:
    """Create a bucket (``path`` without a key), write an object, or with a dict and ``?policy`` say who may read."""
    body = json.dumps(data).encode() if isinstance(data, dict) else data
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", data=body, method="PUT")
    request.add_header("Content-Type", "application/octet-stream")  # not a form
    request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=x/20200101/us-east-1/s3/aws4_request, Signature=x")
    urllib.request.urlopen(request).close()
