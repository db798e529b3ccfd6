"""Short, printable names for stages, values and errors."""

import os
import re
import sys
import sysconfig
import traceback

from wdsflow.text.shell import escape

_CUT = 60
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LIBRARIES = tuple(
    {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "purelib", "platlib")}
    | {os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep}
)


def bare_name(stage: object) -> str:
    """Return the usual name of a stage: ``select`` for webdataset's curried ``_select``.

    >>> import functools
    >>> bare_name(functools.partial(sorted, reverse=True)), bare_name(["a.tar"])
    ('sorted', 'list')
    """
    inner = getattr(stage, "f", None) if hasattr(stage, "kw") else getattr(stage, "func", None)
    function = inner if callable(inner) else stage
    name = getattr(function, "__name__", None) or type(function).__name__
    return escape(name.strip("_") or name, _CUT)


def title(stage: object) -> str:
    """Describe a stage as one would write it, without its handler: ``batched(64, partial=False)``."""
    arguments = getattr(stage, "args", None)
    keywords = getattr(stage, "kw", None)
    if keywords is None:
        keywords = getattr(stage, "keywords", None)
    parts: list[str] = []
    if isinstance(arguments, tuple) and isinstance(keywords, dict):
        parts += [_brief(value) for value in arguments]
        parts += [f"{name}={_brief(value)}" for name, value in keywords.items() if _telling(name, value)]
        return escape(f"{bare_name(stage)}({', '.join(parts)})", _CUT)
    return bare_name(stage)


def error_text(error: BaseException) -> str:
    """Return the type and the first line of an error, even if its ``str()`` fails.

    Addresses of objects are left out: they differ in each run.
    """
    try:
        text = _ADDRESS.sub("", str(error).strip().partition("\n")[0])
    except Exception:  # noqa: BLE001 - errors of other people's making
        text = ""
    return escape(f"{type(error).__name__}: {text}" if text else f"{type(error).__name__} without a message", 200)


def line_of(error: BaseException) -> str:
    """Return the innermost line of the user's own code that an error passed through: "train.py:31"; "" if none."""
    webdataset = getattr(sys.modules.get("webdataset"), "__file__", None)  # may be installed anywhere
    libraries = (*_LIBRARIES, os.path.dirname(os.path.realpath(webdataset)) + os.sep) if webdataset else _LIBRARIES
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if os.path.exists(frame.filename) and not os.path.realpath(frame.filename).startswith(libraries):
            return escape(f"{os.path.relpath(frame.filename)}:{frame.lineno}", 200)
    return ""


def _telling(name: str, value: object) -> bool:
    return value is not None and name not in ("handler", "collation_fn")


def _brief(value: object) -> str:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, list | tuple | dict | set) and len(value) > 3:
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_brief(item) for item in value) + "]"
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else type(value).__name__
