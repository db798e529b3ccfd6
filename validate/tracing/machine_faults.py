"""Whether an error is due to this machine: no memory, disk space, open files or GPU."""

import errno
import os
import re
import sys
import traceback

from wdsflow.memory.batching.exceptions import exception_chain
from wdsflow.memory.batching.memory_errors import is_out_of_memory

_NO_GPU = "this machine has no GPU"
_NO_MEMORY = "it needs more memory than it may take on this machine"
_BY_ERRNO = {
    errno.ENOSPC: "this machine has no space left on its disk",
    errno.EDQUOT: "this machine has no space left on its disk",
    errno.EMFILE: "this machine allows no more open files",
    errno.ENFILE: "this machine allows no more open files",
}
_NAMES_GPU = re.compile(r"cuda|cudnn|nvidia|nvml|rocm|\bhip\b|\bgpus?\b", re.IGNORECASE)
# What a program writes, of any language, that gets no memory.
_NAMES_MEMORY = re.compile(
    rb"cannot allocate memory|out of memory|memoryerror|bad_alloc", re.IGNORECASE
)
# They report missing data of a sample: KeyError: 'gpu'.
_DATA_ERRORS = (LookupError, UnicodeError, TypeError)


def machine_fault(error: BaseException) -> str:
    """Return the missing requirement that caused an error; "" if there is none.

    Such as "this machine has no GPU".
    """
    if is_out_of_memory(error):
        return _NO_MEMORY
    for cause in exception_chain(error):
        has_no_thread = "can't start new thread" in str(cause)
        if has_no_thread or _NAMES_MEMORY.search(_program_output(cause)):
            return _NO_MEMORY
        if isinstance(cause, OSError) and cause.errno in _BY_ERRNO:
            return _BY_ERRNO[cause.errno]
    # Where there is a GPU, its error is one of the sample or of the code.
    if any(map(_names_gpu, exception_chain(error))) and not _has_gpu():
        return _NO_GPU
    return ""


def _program_output(error: BaseException) -> bytes:
    """Return the standard error of a program that failed, if the user's code captured it."""
    if not hasattr(error, "returncode"):
        return b""
    output = getattr(error, "stderr", None)
    if isinstance(output, str):
        return output.encode("utf-8", "replace")
    return output if isinstance(output, bytes) else b""


def _names_gpu(error: BaseException) -> bool:
    """Return whether an error is about a GPU."""
    if isinstance(error, _DATA_ERRORS) or not isinstance(error, Exception):
        return False
    text = str(error)
    if isinstance(error, AssertionError) and not text:
        # The line shows it: assert torch.cuda.is_available().
        frames = traceback.extract_tb(error.__traceback__)
        text = (frames[-1].line or "") if frames else ""
    return bool(_NAMES_GPU.search(text))


def _has_gpu() -> bool:
    if torch := sys.modules.get("torch"):
        return bool(torch.cuda.is_available())
    return os.path.exists("/proc/driver/nvidia") or os.path.exists("/dev/kfd")
