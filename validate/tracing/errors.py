"""Errors of the user's code as text, and the lines of that code."""

import errno
import os
import re
import sys
import sysconfig
import traceback
from types import CodeType

import wdsflow
from wdsflow.memory.batching.attempt import chain, is_out_of_memory
from wdsflow.text.secrets import redact_known
from wdsflow.text.shell import escape

from .pipeline_steps import named, positional

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LIBRARIES = tuple(
    {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "purelib", "platlib")}
    | {os.path.dirname(os.path.realpath(str(wdsflow.__file__))) + os.sep}
    | {os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep}
)
_WORKERS = "Original Traceback (most recent call last)"
_REMOTE = re.compile(r'File "([^"\n]+)", line (\d+), in')
# Of any environment.
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_OF_GPU = re.compile(r"cuda|cudnn|nvidia|nvml|rocm|\bhip\b|\bgpus?\b", re.IGNORECASE)
# They report missing data of a sample: KeyError: 'gpu'.
_OF_DATA = (LookupError, UnicodeError, TypeError)
# What a program says, of any language, that gets no memory.
_OF_MEMORY = re.compile(rb"cannot allocate memory|out of memory|memoryerror|bad_alloc", re.IGNORECASE)
_NO_MEMORY = "it needs more memory than it may take on this machine"
_NUMBERS = {
    errno.ENOSPC: "this machine has no space left on its disk",
    errno.EDQUOT: "this machine has no space left on its disk",
    errno.EMFILE: "this machine allows no more open files",
    errno.ENFILE: "this machine allows no more open files",
}


def error_text(error: BaseException) -> str:
    """Return the type and the first line of an error, even if its ``str()`` fails.

    Addresses of objects are omitted: they differ in each run. Of an error in a worker process of torch, whose text ends with
    the worker's traceback, the last line is the error itself.
    """
    text = _ADDRESS.sub("", _text_of(error))
    if _WORKERS in text:
        return escape(text.splitlines()[-1], 200)
    text = text.partition("\n")[0]
    return escape(f"{type(error).__name__}: {text}" if text else f"{type(error).__name__} without a message", 200)


def _text_of(error: BaseException) -> str:
    try:
        return redact_known(str(error).strip())
    except Exception:  # noqa: BLE001 - the user's own exception class
        return ""


def line_of(error: BaseException) -> str:
    """Return the innermost line of the user's own code that an error passed through: "train.py:31"; "" if none.

    An error in a worker process of torch has the worker's traceback in its text.
    """
    for name, number in reversed(_REMOTE.findall(_text_of(error))):
        if found := own_line(name, int(number)):
            return found
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if found := own_line(frame.filename, frame.lineno):
            return found
    return ""


def own_line(file: str, number: int | None) -> str:
    """Return a line as "train.py:31" if it is in the user's own code, otherwise ""."""
    # May be installed anywhere.
    webdataset = getattr(sys.modules.get("webdataset"), "__file__", None)
    libraries = (*_LIBRARIES, os.path.dirname(os.path.realpath(webdataset)) + os.sep) if webdataset else _LIBRARIES
    real = os.path.realpath(file)
    if not os.path.exists(file) or real.startswith(libraries) or any(name in real for name in _PACKAGES):
        return ""
    return escape(f"{os.path.relpath(file)}:{number}", 200)


def code_line(thing: object) -> str:
    """Return the line where a function, generator or class of the user begins, or that of an argument of a stage; "" if none."""
    arguments = *positional(thing), *named(thing).values(), *getattr(thing, "keywords", {}).values()
    for each in (thing, getattr(thing, "func", None), *arguments, type(thing)):
        for function in (each, getattr(each, "__iter__", None), getattr(each, "__call__", None)):  # noqa: B004 - its code
            code = getattr(function, "__code__", None) or getattr(function, "gi_code", None)
            if isinstance(code, CodeType) and (line := own_line(code.co_filename, code.co_firstlineno)):
                return line
    return ""


def machine_fault(error: BaseException) -> str:
    """Return the missing requirement that caused an error, such as "this machine has no GPU"; "" otherwise."""
    if is_out_of_memory(error) or "can't start new thread" in str(error):
        return _NO_MEMORY
    for each in chain(error):
        if _OF_MEMORY.search(_said_by_program(each)):
            return _NO_MEMORY
        if isinstance(each, OSError) and each.errno in _NUMBERS:
            return _NUMBERS[each.errno]
    return "this machine has no GPU" if any(map(_asks_for_gpu, chain(error))) and not _has_gpu() else ""


def _said_by_program(error: BaseException) -> bytes:
    """Return what a program wrote that was run and failed, if the user's code has kept it."""
    said = getattr(error, "stderr", None) if hasattr(error, "returncode") else None
    if isinstance(said, str):
        return said.encode("utf-8", "replace")
    return said if isinstance(said, bytes) else b""


def _asks_for_gpu(error: BaseException) -> bool:
    if isinstance(error, _OF_DATA) or not isinstance(error, Exception):
        return False
    text = str(error)
    if isinstance(error, AssertionError) and not text:
        frames = traceback.extract_tb(error.__traceback__)
        # Assert torch.cuda.is_available().
        text = (frames[-1].line or "") if frames else ""
    return bool(_OF_GPU.search(text))


def _has_gpu() -> bool:
    if torch := sys.modules.get("torch"):
        return bool(torch.cuda.is_available())
    return os.path.exists("/proc/driver/nvidia") or os.path.exists("/dev/kfd")
