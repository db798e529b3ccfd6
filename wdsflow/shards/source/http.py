"""Shards on web servers: every response is compared with the request, and with earlier responses."""

import itertools
import logging
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from wdsflow.text.install import install_extras, install_packages
from wdsflow.text.secrets import redact

from .base import SourceChangedError, SourceError, Trouble
from .hub import SCHEME
from .limits import (
    VARIABLE,
    AbandonedTimeoutError,
    is_silence,
    reported,
    silence_limit,
    within_limit,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from aiohttp import ClientResponse
    from yarl import URL

T = TypeVar("T")

_log = logging.getLogger(__name__)
_LIBRARY = re.compile(r"^Install (\S+) to ")

# Seconds before each further try where a connection fails.
WAITS: tuple[float, ...] = (0.2, 1.0, 4.0)
# Where S3 asks for fewer requests.
_MORE_WAITS = (8.0, 16.0, 32.0)
_THROTTLED = frozenset(
    ("SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled")
)
# Seconds that a busy server may ask for.
_LONGEST = 300.0
# In a RateLimit header: seconds until it is reset.
_LIMITED = re.compile(r";\s*t=(\d+)")

# Whose libraries the extra `remote` brings.
_REMOTE = frozenset(("http", "https", "s3", "s3a", "gs", "gcs", "hf"))
_UNSIGNED = frozenset(("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"))

_UNKNOWN = "the repository does not exist, or it is private and your token cannot read it: check its name, or log in"
# By the hub's code or status.
_REFUSALS: dict[str | int | None, tuple[Trouble, str]] = {
    "GatedRepo": (
        "denied",
        "access is gated: ask for it on the page of the repository, then log in",
    ),
    401: ("denied", _UNKNOWN),
    "RepoNotFound": ("missing", _UNKNOWN),
    403: ("denied", "your token may not read it (status 403): log in with another"),
    429: (
        "io",
        "the hub limits requests (status 429): try again later, or log in for a higher limit",
    ),
    "RevisionNotFound": ("missing", "the repository has no such branch, tag or commit"),
    "EntryNotFound": ("missing", "the repository has no such file at this revision"),
}

_PART = re.compile(r"bytes\s+(\d+)-(\d+)/(\d+|\*)")
# Headers that another server must not see.
_SECRET = frozenset(("authorization", "cookie"))
# The first that two responses share decides whether they are of one file.
_MARKS = ("ETag", "Last-Modified")


def trying(action: Callable[[], T], url: str, size: int = 0) -> T:
    """Return the result of ``action``, with retries if a fault may pass. Raises ``SourceError``.

    What is waited for is reported after some seconds. ``size``: bytes that it sends or gets, which
    take a while.
    """
    begun = time.monotonic()
    for tries in itertools.count():
        try:
            with reported(url, size):
                return within_limit(action, url, size)
        except Exception as raised:  # noqa: BLE001 - every file system raises exceptions of its own
            error = _reason(raised)
            wait = _next_wait(error, tries, time.monotonic() - begun)
            if wait is None:
                raise source_error(error, url) from None
            if is_silence(error):
                _log.warning("wdsflow: %s did not answer; trying again", redact(url))
        time.sleep(wait)
    # The last try returns or raises.
    raise AssertionError


def _next_wait(error: Exception, tries: int, elapsed: float) -> float | None:
    """Return the seconds until the next try, None if there is none. ``elapsed``: seconds since the first."""
    waits = (*WAITS, *_MORE_WAITS) if _code(error) in _THROTTLED else WAITS
    asked = _asked_wait(error)
    if tries >= len(waits) or asked > _LONGEST or not _may_pass(error):
        return None
    # Each try of a silent server takes long: there are two, and one where the library has tried
    # again by itself.
    if is_silence(error) and (tries > 0 or elapsed >= 4 * silence_limit()):
        return None
    return max(waits[tries], asked)


def _may_pass(error: Exception) -> bool:
    """Return whether a fault of a file system may pass: of the connection, or of a busy server."""
    if isinstance(
        error,
        (
            PermissionError,
            FileNotFoundError,
            ImportError,
            ValueError,
            TypeError,
            AbandonedTimeoutError,
        ),
    ):
        return False
    if type(error).__name__ in {*_UNSIGNED, "FileExpired"}:
        return False
    status = _status(error)
    return (
        status is None
        or status in (408, 429)
        or status >= 500
        or _code(error) in {"RequestTimeout", *_THROTTLED}
    )


def _said(error: BaseException, header: str) -> str:
    """Return a header of the server's response, "" if there is none."""
    headers = (
        getattr(getattr(error, "response", None), "headers", None)
        or getattr(error, "headers", None)
        or {}
    )
    return str(headers.get(header) or "")


def _asked_wait(error: Exception) -> float:
    """Return the seconds after which a busy server wants the next request, 0 if it does not say."""
    if _status(error) not in (429, 503):
        return 0.0
    after = (
        _said(error, "Retry-After") or (_LIMITED.search(_said(error, "RateLimit")) or ["", ""])[1]
    )
    return float(after) if after.isdigit() else 0.0


def _reason(error: Exception) -> Exception:
    """Return the cause of an exception: fsspec reports every fault at opening a url as a missing file."""
    cause = error.__cause__
    if (
        isinstance(error, FileNotFoundError)
        and isinstance(cause, Exception)
        and _status(cause) not in (404, 410)
    ):
        return cause
    return error


def _status(error: BaseException) -> int | None:
    """Return the status of the server's response, if the exception or its cause has it."""
    for cause in (error, error.__cause__):
        found = getattr(cause, "status", None)
        if found is None:
            found = getattr(cause, "response", None)
            answered = found.get("ResponseMetadata", {}) if isinstance(found, dict) else {}
            found = answered.get("HTTPStatusCode") or getattr(found, "status_code", None)
        if isinstance(found, int):
            return found
    return None


def _code(error: BaseException) -> str:
    """Return the code of an answer of S3, "" if there is none."""
    for cause in (error, error.__cause__):
        answer = getattr(cause, "response", None)
        if isinstance(answer, dict):
            return str(answer.get("Error", {}).get("Code", ""))
    return ""


def source_error(error: Exception, url: str) -> SourceError:
    """Translate an exception of a file system."""
    if isinstance(error, SourceError):
        return error
    error = _reason(error)
    text = str(error) or type(error).__name__
    status = _status(error)
    if url.startswith(SCHEME) and (refused := _hub_error(error, status)):
        return refused
    if isinstance(error, PermissionError) or status in (401, 403):
        return SourceError("denied", f"status {status}: {text}" if status else text)
    if type(error).__name__ in _UNSIGNED:
        return SourceError(
            "denied",
            f"{text}: set credentials, or FSSPEC_S3='{{\"anon\": true}}' for a public bucket",
        )
    if isinstance(error, FileNotFoundError) or status == 404:
        return SourceError("missing", f"no such file: {text}")
    if isinstance(error, ImportError):
        scheme = url.partition(":")[0]
        # fsspec's words.
        named = _LIBRARY.search(text)
        fix = (
            install_extras("remote")
            if scheme in _REMOTE
            else install_packages(named[1])
            if named
            else ""
        )
        return SourceError(
            "needs-library", f"{scheme}: urls need a library that is not installed ({text})", fix
        )
    if is_silence(error):
        longer = f"{VARIABLE}={5 * silence_limit():g} waits longer"
        return SourceError("io", f"no answer from the server for {silence_limit():g} s; {longer}")
    if isinstance(error, ValueError) and "rotocol" in text:
        return SourceError("refused", text)
    if type(error).__name__ == "FileExpired":
        return SourceChangedError()
    return SourceError("io", f"{type(error).__name__}: {text}")


def _hub_error(error: Exception, status: int | None) -> SourceError | None:
    """Translate what the hub or its client says; None if it is nothing special."""
    code = _said(error, "X-Error-Code")
    if known := next((name for name in _REFUSALS if name in (code, status)), None):
        kind, why = _REFUSALS[known]
        return SourceError(kind, why, "hf auth login" if "log in" in why else "")
    if status is None and not isinstance(error, (FileNotFoundError, ImportError, ValueError)):
        return SourceError(
            "io",
            f"the hub cannot be reached ({error}): check the network, and HF_ENDPOINT",
            "hf env",
        )
    return None


class HttpFile:
    """A file on a server, in parts or as a stream of bytes, as they are stored.

    fsspec makes the connection, so that its settings hold (headers, credentials, proxies). An
    answer with other bytes than requested, or of another file than the first answer, is a fault of
    the server: the request is made again, and then it is an error. ``size`` is known after
    ``first``. Where the server redirects to another, that one gets the later requests, without
    credentials: the hub counts requests, and each would take twice as long. ``name`` is the shard,
    for messages.
    """

    def __init__(self, system: Any, url: str, name: str) -> None:
        self.url = name
        self._asked = url
        # Where the server redirected to.
        self._target: URL | None = None
        self.size: int | None = None
        self._system = system
        self._marks: dict[str, str] = {}

    def first(self, size: int) -> "bytes | HttpStream":
        """Return the first bytes, at most ``size``, or the whole file as a stream if the server sends no parts.

        Raises SourceError.
        """
        return trying(lambda: self._sync(partial(self._first, size)), self.url)

    def fetch(self, start: int, stop: int) -> bytes:
        """Return these bytes. Raises SourceError."""
        data = b""
        # Servers may send less than they are asked for.
        while start + len(data) < stop:
            data += trying(
                partial(self._sync, partial(self._part, start + len(data), stop)), self.url
            )
        return data

    def stream(self) -> "HttpStream":
        """Request the whole file. Raises errors of aiohttp, and SourceError."""
        return self._sync(self._whole)

    def _sync(self, ask: Callable[[], Awaitable[T]]) -> T:
        from fsspec.asyn import sync

        found: T = sync(self._system.loop, ask)
        return found

    async def _first(self, size: int) -> "bytes | HttpStream":
        answer = await self._ask({"Range": f"bytes=0-{size - 1}"})
        if answer.status == 200:
            return self._streamed(answer)
        async with answer:
            if answer.status == 416 and answer.headers.get("Content-Range", "").endswith("/0"):
                self.size = 0
                return b""
            data = await self._body(answer, 0, size)
        # Parts of a file without an end: "0-99/*".
        return await self._whole() if self.size is None else data

    async def _part(self, start: int, stop: int) -> bytes:
        try:
            async with await self._ask({"Range": f"bytes={start}-{stop - 1}"}) as answer:
                return await self._body(answer, start, stop)
        except BaseException:
            # The next try asks for a new one.
            self._target = None
            raise

    async def _whole(self) -> "HttpStream":
        return self._streamed(await self._ask({}))

    async def _ask(self, headers: dict[str, str]) -> "ClientResponse":
        """Send a request; ``identity``: bytes that are packed on the way are not those that are stored."""
        system = self._system
        settings = {"timeout": system.client_kwargs["timeout"], **system.kwargs}
        headers = {
            **(settings.pop("headers", None) or {}),
            "Accept-Encoding": "identity",
            **headers,
        }
        session = await system.set_session()
        get = partial(session.get, auto_decompress=False)
        if (target := self._target) is not None:
            # Unless it answers.
            self._target = None
            public = {name: value for name, value in headers.items() if name.lower() not in _SECRET}
            found: ClientResponse = await get(target, headers=public, **{**settings, "auth": None})
            if found.status < 400:
                self._target = target
                return found
            # The address has expired.
            found.close()
        found = await get(system.encode_url(self._asked), headers=headers, **settings)
        if found.history and found.status < 400:
            self._target = found.url
        return found

    def _streamed(self, answer: "ClientResponse") -> "HttpStream":
        try:
            answer.raise_for_status()
            if answer.status != 200:
                raise SourceError(
                    "io", f"the server answered with status {answer.status} instead of the file"
                )
            length = answer.headers.get("Content-Length")
            self._must_be_the_file(answer, int(length) if length is not None else None)
        except BaseException:
            answer.close()
            raise
        return HttpStream(self._system.loop, answer)

    async def _body(self, answer: "ClientResponse", start: int, stop: int) -> bytes:
        """Return the bytes of a part. Raises SourceError unless they are from ``start`` on, of this very file."""
        answer.raise_for_status()
        if answer.status == 200:
            raise SourceError(
                "io", f"the server sent the whole file instead of bytes {start}-{stop - 1}"
            )
        sent = answer.headers.get("Content-Range", "")
        found = _PART.fullmatch(sent.strip())
        if found is None or int(found[1]) != start or not start <= int(found[2]) < stop:
            answered = f"with {sent!r}" if sent else "without a Content-Range"
            raise SourceError(
                "io", f"the server answered {answered} to a request for bytes {start}-{stop - 1}"
            )
        self._must_be_the_file(answer, None if found[3] == "*" else int(found[3]))
        data: bytes = await answer.read()
        if len(data) != int(found[2]) + 1 - start:
            raise SourceError("io", f"the server announced {sent!r} but sent {len(data):,} bytes")
        return data

    def _must_be_the_file(self, answer: "ClientResponse", size: int | None) -> None:
        """Compare an answer with the first one. Raises SourceError."""
        if size is not None and size != self.size is not None:
            raise SourceChangedError(f"it had {self.size:,} bytes, now {size:,}")
        marks = {
            name: answer.headers[name].removeprefix("W/")
            for name in _MARKS
            if name in answer.headers
        }
        for name in _MARKS:
            if name in marks and name in self._marks:
                if marks[name] != self._marks[name]:
                    raise SourceChangedError(f"{name} {self._marks[name]}, now {marks[name]}")
                break
        self.size = size if self.size is None else self.size
        self._marks = {**marks, **self._marks}


class HttpStream:
    """The body of an answer, as a file that can be read forward."""

    def __init__(self, loop: "AbstractEventLoop", answer: "ClientResponse") -> None:
        self._loop, self._answer = loop, answer

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes, none at the end. Raises errors of aiohttp if the connection breaks."""
        from fsspec.asyn import sync

        data: bytes = sync(self._loop, self._answer.content.read, size)
        return data

    def close(self) -> None:
        """Close the connection."""
        self._loop.call_soon_threadsafe(self._answer.close)
