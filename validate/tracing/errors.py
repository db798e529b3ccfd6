"""Errors of the user's code as text, and the lines of that code."""

import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from types import CodeType

import wdsflow
from wdsflow.text.secrets import redact_known
from wdsflow.text.shell import escape

from .pipeline_stages import named_arguments, positional_arguments

_MOST_LETTERS = 200
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# In the text of an error in a worker process of torch, before the worker's traceback.
_WORKER_TRACEBACK = "Original Traceback (most recent call last)"
_TRACEBACK_LINE = re.compile(r'File "([^"\n]+)", line (\d+), in')
# Folders of installed packages, of any environment.
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def _library_folders() -> tuple[str, ...]:
    """Return folders without user code: those of Python, this environment and wdsflow."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    folders.append(os.path.dirname(str(wdsflow.__file__)))
    real_folders = {os.path.realpath(folder) for folder in folders}
    # The real folder of ``validate``, which may be elsewhere than that of the package.
    real_folders.add(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    return tuple(folder + os.sep for folder in real_folders)


_LIBRARIES = _library_folders()


def error_text(error: BaseException) -> str:
    """Return the type and the first line of an error, even if its ``str()`` fails.

    Addresses of objects are omitted: they differ in each run. Of an error in a worker process of
    torch, whose text ends with the worker's traceback, the last line is the error itself.
    """
    text = _ADDRESS.sub("", _text_of(error))
    if _WORKER_TRACEBACK in text:
        return escape(text.splitlines()[-1], _MOST_LETTERS)
    name = type(error).__name__
    first_line = text.partition("\n")[0]
    return escape(
        f"{name}: {first_line}" if first_line else f"{name} without a message", _MOST_LETTERS
    )


def _text_of(error: BaseException) -> str:
    try:
        return redact_known(str(error).strip())
    except Exception:  # noqa: BLE001 - the user's own exception class
        return ""


def line_of(error: BaseException) -> str:
    """Return the innermost line of the user's code that an error passed through; "" if none.

    Such as "train.py:31".

    An error in a worker process of torch has the worker's traceback in its text.
    """
    for file, number in reversed(_TRACEBACK_LINE.findall(_text_of(error))):
        line = own_line(file, int(number))
        if line:
            return line
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        line = own_line(frame.filename, frame.lineno)
        if line:
            return line
    return ""


def own_line(file: str, number: int | None) -> str:
    """Return a line as "train.py:31" if it is in the user's own code, otherwise "".

    >>> own_line(__file__, 1), own_line(os.__file__, 1)
    ('', '')
    """
    if not os.path.exists(file):
        return ""
    real_path = os.path.realpath(file)
    if real_path.startswith(_LIBRARIES) or any(folder in real_path for folder in _PACKAGES):
        return ""
    # It may be installed anywhere.
    webdataset = getattr(sys.modules.get("webdataset"), "__file__", None)
    if webdataset and real_path.startswith(os.path.dirname(os.path.realpath(webdataset)) + os.sep):
        return ""
    return escape(f"{os.path.relpath(file)}:{number}", _MOST_LETTERS)


def code_line(thing: object) -> str:
    """Return the line where a user's function, generator or class begins; "" if none.

    If a stage has no such line, that of one of its arguments.
    """
    for function in _functions_of(thing):
        code = getattr(function, "__code__", None) or getattr(function, "gi_code", None)
        if isinstance(code, CodeType):
            line = own_line(code.co_filename, code.co_firstlineno)
            if line:
                return line
    return ""


def _functions_of(thing: object) -> Iterator[object]:
    """Yield the objects that may have the code of a stage.

    These are the stage, the function in a partial, the arguments and the class, each with its
    methods ``__iter__`` and ``__call__``.
    """
    keywords = getattr(thing, "keywords", {})
    arguments = [*positional_arguments(thing), *named_arguments(thing).values(), *keywords.values()]
    for owner in (thing, getattr(thing, "func", None), *arguments, type(thing)):
        yield owner
        yield getattr(owner, "__iter__", None)
        yield getattr(owner, "__call__", None)  # noqa: B004 - its code
