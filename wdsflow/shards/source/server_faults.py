"""What goes wrong at servers: what may pass, so that asking again helps, and what it is called."""

import re
import time
from collections.abc import Callable
from typing import TypeVar

from wdsflow.text.install import install_extras, install_packages

from .base import SourceChangedError, SourceError

T = TypeVar("T")

_LIBRARY = re.compile(r"^Install (\S+) to ")

WAITS: tuple[float, ...] = (0.2, 1.0, 4.0)  # seconds before each further try where a connection fails

_REMOTE = frozenset(("http", "https", "s3", "s3a", "gs", "gcs"))  # whose libraries the extra `remote` brings
_UNSIGNED = frozenset(("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"))


def trying(action: Callable[[], T], url: str) -> T:
    """Return what ``action`` returns, in several tries where the fault may pass. Raises ``SourceError``."""
    for wait in (*WAITS, None):
        try:
            return action()
        except Exception as raised:  # noqa: BLE001 - every file system raises exceptions of its own
            error = _reason(raised)
            if wait is None or not _may_pass(error):
                raise told(error, url) from None
        time.sleep(wait)
    raise AssertionError  # the last try returns or raises


def _may_pass(error: Exception) -> bool:
    """Return whether a fault of a file system may be gone a moment later: of the connection, or of a busy server."""
    if isinstance(error, (PermissionError, FileNotFoundError, ImportError, ValueError, TypeError)):
        return False
    if type(error).__name__ in {*_UNSIGNED, "FileExpired"}:
        return False
    status = _status(error)
    return status is None or status in (408, 429) or status >= 500


def _reason(error: Exception) -> Exception:
    """Return what was after an exception: fsspec says of all faults at opening a url that there is no such file."""
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) and _status(cause) not in (404, 410):
        return cause
    return error


def _status(error: BaseException) -> int | None:
    """Return the status with which a server answered, where the exception or its cause has it."""
    for cause in (error, error.__cause__):
        found = getattr(cause, "status", None)
        if found is None:
            found = getattr(cause, "response", None)
            found = found.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(found, dict) else None
        if isinstance(found, int):
            return found
    return None


def told(error: Exception, url: str) -> SourceError:
    """Translate what a file system raised."""
    if isinstance(error, SourceError):
        return error
    error = _reason(error)
    text = str(error) or type(error).__name__
    status = _status(error)
    if isinstance(error, PermissionError) or status in (401, 403):
        return SourceError("denied", f"status {status}: {text}" if status else text)
    if type(error).__name__ in _UNSIGNED:
        return SourceError("denied", f"{text}: set credentials, or FSSPEC_S3='{{\"anon\": true}}' for a public bucket")
    if isinstance(error, FileNotFoundError) or status == 404:
        return SourceError("missing", f"no such file: {text}")
    if isinstance(error, ImportError):
        scheme = url.partition(":")[0]
        named = _LIBRARY.search(text)  # fsspec's words
        fix = install_extras("remote") if scheme in _REMOTE else install_packages(named[1]) if named else ""
        return SourceError("needs-library", f"{scheme}: urls need a library that is not installed ({text})", fix)
    if isinstance(error, ValueError) and "rotocol" in text:
        return SourceError("refused", text)
    if type(error).__name__ == "FileExpired":
        return SourceChangedError()
    return SourceError("io", f"{type(error).__name__}: {text}")
