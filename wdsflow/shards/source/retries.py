"""Retries of requests to servers whose fault may pass."""

import itertools
import logging
import re
import time
from collections.abc import Callable
from typing import TypeVar

from wdsflow.text.secrets import redact

from .limits import (
    AbandonedTimeoutError,
    call_within_limit,
    is_silence,
    silence_limit,
    slow_request_reported,
)
from .response_errors import UNSIGNED, cause_of, header_of, s3_code_of, status_of
from .server_waits import waits
from .source_errors import source_error

T = TypeVar("T")

_log = logging.getLogger(__name__)

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
# Faults that stay.
_PERMANENT = (
    PermissionError,
    FileNotFoundError,
    ImportError,
    ValueError,
    TypeError,
    AbandonedTimeoutError,
)


def with_retries(action: Callable[[], T], url: str, size: int = 0) -> T:
    """Return the result of ``action``, with retries if a fault may pass. Raises ``SourceError``.

    What is waited for is reported after some seconds. ``size``: bytes that it sends or gets, which
    take a while.
    """
    start = time.monotonic()
    for tries in itertools.count():
        waits.wait(url)
        try:
            with slow_request_reported(url, size):
                return call_within_limit(action, url, size)
        except Exception as raised:  # noqa: BLE001 - every file system raises exceptions of its own
            error = cause_of(raised)
            wait = _next_wait(error, tries, time.monotonic() - start)
            if wait is None:
                raise source_error(error, url) from None
            if _is_busy(error):
                waits.note(url, wait)
                continue
            if is_silence(error):
                _log.warning("wdsflow: %s did not answer; trying again", redact(url))
        time.sleep(wait)
    # The last try returns or raises.
    raise AssertionError


def _next_wait(error: Exception, tries: int, elapsed: float) -> float | None:
    """Return the seconds until the next try; None if there is none.

    ``elapsed``: seconds since the first try.
    """
    seconds = WAITS
    if s3_code_of(error) in _THROTTLED:
        seconds = (*WAITS, *_MORE_WAITS)
    requested = _requested_wait(error)
    if tries >= len(seconds) or requested > _LONGEST or not _may_pass(error):
        return None
    # Each try of a silent server takes long: there are two, and one where the library has tried
    # again by itself.
    if is_silence(error) and (tries > 0 or elapsed >= 4 * silence_limit()):
        return None
    return max(seconds[tries], requested)


def _may_pass(error: Exception) -> bool:
    """Return whether a fault of a file system may pass: of the connection, or of a busy server."""
    if isinstance(error, _PERMANENT):
        return False
    if type(error).__name__ in {*UNSIGNED, "FileExpired"}:
        return False
    status = status_of(error)
    if status is None or status in (408, 429) or status >= 500:
        return True
    return s3_code_of(error) in {"RequestTimeout", *_THROTTLED}


def _is_busy(error: Exception) -> bool:
    """Return whether a server wants no requests for now, whoever sends them."""
    if status_of(error) == 429 or s3_code_of(error) in _THROTTLED:
        return True
    return _requested_wait(error) > 0


def _requested_wait(error: Exception) -> float:
    """Return the seconds after which a busy server wants the next request, 0 if it does not say."""
    if status_of(error) not in (429, 503):
        return 0.0
    seconds = header_of(error, "Retry-After")
    if not seconds:
        limit = _LIMITED.search(header_of(error, "RateLimit"))
        seconds = "" if limit is None else limit[1]
    return float(seconds) if seconds.isdigit() else 0.0
