"""Errors that say something about the machine, and nothing about the sample at which they are raised."""

import errno
import os
import re
import sys
import traceback
from typing import Any

from wdsflow.memory.batching.attempt import chain, is_out_of_memory

_OF_GPU = re.compile(r"cuda|cudnn|nvidia|nvml|rocm|\bhip\b|\bgpus?\b", re.IGNORECASE)
_OF_DATA = (LookupError, UnicodeError, TypeError)  # they name what a sample lacks: KeyError: 'gpu'
_NUMBERS = {
    errno.ENOSPC: "this machine has no space left on its disk",
    errno.EDQUOT: "this machine has no space left on its disk",
    errno.EMFILE: "this machine allows no more open files",
    errno.ENFILE: "this machine allows no more open files",
}


def machine_fault(error: BaseException) -> str:
    """Return what the machine lacks, if that is why an error was raised: "this machine has no GPU"; "" otherwise."""
    if is_out_of_memory(error) or "can't start new thread" in str(error):
        return "it needs more memory than it may take on this machine"
    for each in chain(error):
        if isinstance(each, OSError) and each.errno in _NUMBERS:
            return _NUMBERS[each.errno]
    return "this machine has no GPU" if any(map(_asks_for_gpu, chain(error))) and not _has_gpu() else ""


def _asks_for_gpu(error: BaseException) -> bool:
    if isinstance(error, _OF_DATA) or not isinstance(error, Exception):
        return False
    text = str(error)
    if isinstance(error, AssertionError) and not text:
        frames = traceback.extract_tb(error.__traceback__)
        text = (frames[-1].line or "") if frames else ""  # assert torch.cuda.is_available()
    return bool(_OF_GPU.search(text))


def _has_gpu() -> bool:
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        return bool(torch.cuda.is_available())
    return os.path.exists("/proc/driver/nvidia") or os.path.exists("/dev/kfd")
