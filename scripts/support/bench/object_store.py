"""An object store on this machine, with the latency and bandwidth of a remote one.

It has enough of S3 to list and to read.

Files of a folder are objects of the bucket "bench"; requests are not signed. All connections share
the bandwidth.
"""

import os
import sys
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

# Seconds before the first byte of an answer; bytes a second.
LATENCY, BANDWIDTH = 0.02, 200e6
_SLICE = 256 << 10


class _SharedLine:
    """The line that all answers share: who sends waits until the bytes before have passed."""

    def __init__(self, bandwidth: float) -> None:
        self._seconds, self._free, self._lock = 1 / bandwidth, 0.0, threading.Lock()

    def pass_on(self, size: int) -> None:
        with self._lock:
            self._free = max(self._free, time.monotonic()) + size * self._seconds
            wait = self._free - time.monotonic()
        if wait > 0.002:
            time.sleep(wait)


class _Store(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # The header of an answer would wait for the client's receipt.
    disable_nagle_algorithm = True
    folder: str
    latency: float
    line: _SharedLine

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""

    def do_GET(self) -> None:
        """Answer with an object, a range of one, or a listing."""
        url = urlsplit(self.path)
        time.sleep(self.latency)
        bucket, _, name = unquote(url.path).lstrip("/").partition("/")
        if not name:
            self._list(bucket, parse_qs(url.query).get("prefix", [""])[0])
            return
        try:
            file = os.open(os.path.join(self.folder, name), os.O_RDONLY)
        except OSError:
            self._begin(404, 0)
            return
        try:
            self._send(file)
        finally:
            os.close(file)

    do_HEAD = do_GET  # noqa: N815

    def _send(self, file: int) -> None:
        status = os.fstat(file)
        size = status.st_size
        headers = {
            "ETag": f'"{status.st_mtime_ns:x}-{size:x}"',
            "Last-Modified": formatdate(status.st_mtime, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        start, stop = 0, size
        byte_range = self.headers.get("Range")
        if byte_range:
            first, _, last = byte_range.removeprefix("bytes=").partition("-")
            start = int(first)
            stop = min(int(last or size - 1) + 1, size)
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        self._begin(206 if byte_range else 200, stop - start, headers)
        while self.command == "GET" and start < stop:
            count = min(_SLICE, stop - start)
            self.line.pass_on(count)
            start += os.sendfile(self.connection.fileno(), file, start, count)

    def _list(self, bucket: str, prefix: str) -> None:
        files = sorted(name for name in os.listdir(self.folder) if name.startswith(prefix))
        entries = "".join(
            f"<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<Size>{os.path.getsize(os.path.join(self.folder, name))}</Size></Contents>"
            for name in files
        )
        text = f"<ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        self._begin(200, len(text), {"Content-Type": "application/xml"})
        self.wfile.write(text.encode())

    def _begin(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Say nothing of connections that a client closed."""


def main(folder: str, latency: float, bandwidth: float) -> None:
    """Serve until the process is killed; print the address first."""
    settings = {"folder": folder, "latency": latency, "line": _SharedLine(bandwidth)}
    server = _Server(("127.0.0.1", 0), type("Store", (_Store,), settings))
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
