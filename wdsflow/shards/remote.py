"""Shards on other machines, through fsspec, and shards from shell commands."""

import os
import signal
import subprocess
from typing import Any

from .decompress import compression_of
from .source import FIRST, NEXT, Source, SourceError
from .streams import ForwardSource

_REQUEST = 4 << 20  # bytes asked from a server at once


class RemoteSource(Source):
    """An uncompressed shard on a file system that can seek."""

    def __init__(self, url: str, file: Any) -> None:
        self.url, self._file = url, file
        self.size = self.length = file.size

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the tar; fewer at its end. Raises ``SourceError``."""
        try:
            self._file.seek(offset)
            data: bytes = self._file.read(max(0, size))
        except Exception as error:  # noqa: BLE001 - every file system raises exceptions of its own
            raise _told(error, self.url) from None
        self.bytes_read += len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_remote(url: str) -> Source:
    """Open a url through fsspec. Raises ``SourceError``."""
    try:
        import fsspec
    except ImportError:
        raise SourceError("needs-library", "remote shards need fsspec: pip install fsspec") from None
    try:
        file = fsspec.open(url, "rb", block_size=_REQUEST).open()
        start = file.read(FIRST)
        seekable = file.seekable() and getattr(file, "size", None) is not None
    except Exception as error:  # noqa: BLE001 - every file system raises exceptions of its own
        raise _told(error, url) from None
    if seekable and compression_of(start) is None:
        return RemoteSource(url, file)

    def raw() -> bytes:
        try:
            data: bytes = file.read(NEXT)
        except Exception as error:  # noqa: BLE001
            raise _told(error, url) from None
        return data

    def close() -> str:
        file.close()
        return ""

    return ForwardSource(url, raw, start, size=getattr(file, "size", None), close=close)


def _told(error: Exception, url: str) -> SourceError:
    """Translate what a file system raised."""
    text = str(error) or type(error).__name__
    status = next((found for cause in (error, error.__cause__) if (found := getattr(cause, "status", None))), None)
    if isinstance(error, PermissionError) or status in (401, 403):
        return SourceError("denied", f"status {status}: {text}" if status else text)
    if isinstance(error, FileNotFoundError) or status == 404:
        return SourceError("missing", f"no such file: {text}")
    if isinstance(error, ImportError):
        scheme = url.partition(":")[0]
        return SourceError("needs-library", f"{text} (pip install 'wdsflow[remote]' has what most {scheme}: urls need)")
    if isinstance(error, ValueError) and "rotocol" in text:
        return SourceError("refused", text)
    return SourceError("io", f"{type(error).__name__}: {text}")


def open_pipe(url: str) -> Source:
    """Run the command of a ``pipe:`` url in a shell and read what it writes. Raises ``SourceError``."""
    command = url.removeprefix("pipe:")
    try:
        process = subprocess.Popen(  # noqa: S602 - a shell command is what the user asked for, by flag
            command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise SourceError("io", str(error)) from None
    output = process.stdout
    if output is None:
        raise SourceError("io", "the command has no output")

    def close() -> str:
        """Return what is wrong if the command failed by itself."""
        output.close()
        try:
            status = process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        return f"the command ended with status {status}" if status else ""

    return ForwardSource(url, lambda: output.read(NEXT), output.read(FIRST), close=close)
