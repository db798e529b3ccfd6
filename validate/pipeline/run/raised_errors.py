"""What an exception of the user's code shows.

Finds the error that Ray has wrapped, and the sample at which it was raised.
"""

import re
import traceback
from collections.abc import Collection
from tarfile import TarInfo

from ...tracing.errors import own_line

# Ray wraps errors in errors, but not deeper.
_MOST_CAUSES = 8
# Of a dict that may hold a key.
_MOST_VALUES = 16
# Of the name of a member: its key.
_STEM = re.compile(r"(?:.*/)?[^./]+")


def cause_of(error: BaseException) -> BaseException:
    """Return the error of the user's code that Ray has wrapped, or the error itself."""
    for _ in range(_MOST_CAUSES):
        if not type(error).__module__.startswith("ray."):
            break
        cause = getattr(error, "cause", None) or error.__cause__
        if not isinstance(cause, BaseException):
            break
        error = cause
    return error


def key_in_frames(error: BaseException, keys: Collection[str]) -> str:
    """Return the key of the sample at which the user's code raised an error.

    It is found in the variables of the user's functions. Returns "" if it is unknown.

    ``keys``: of the samples in the shards.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        if not own_line(frame.f_code.co_filename, frame.f_lineno):
            continue
        for value in list(frame.f_locals.values()):
            key = _key_of(value, keys)
            if key:
                return key
    return ""


def _key_of(value: object, keys: Collection[str]) -> str:
    """Return the key of the sample that a variable holds or names; "" if it does neither."""
    if isinstance(value, dict):
        return _key_of_dict(value, keys)
    name = getattr(value, "name", None) if isinstance(value, TarInfo) else value
    if not isinstance(name, str):
        return ""
    if name in keys:
        return name
    stem = _STEM.match(name)
    return stem[0] if stem and stem[0] in keys else ""


def _key_of_dict(sample: dict[object, object], keys: Collection[str]) -> str:
    key = sample.get("__key__")
    if isinstance(key, str):
        return key
    for value in list(sample.values())[:_MOST_VALUES]:
        if isinstance(value, str) and value in keys:
            return value
    return ""
