"""Classifies an exception in a worker.

It means too little memory, a full disk, or an error of the user's function.
"""

import errno
import traceback

from wdsflow.memory.batching.exceptions import exception_chain, text_of
from wdsflow.memory.batching.memory_errors import is_out_of_memory

from .errors import UnreadableError
from .messages import Failed, FailureKind

# EFBIG: a limit on the size of files.
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
# Characters of an exception's text that are searched.
_SEARCHED = 10_000
# is_out_of_memory does not trust these texts in any
# exception; here, a wrong guess only costs a retry.
_MEMORY_TEXTS = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "insufficient memory",
    "unable to allocate",
    # Its stack would exceed the limit.
    "can't start new thread",
)


def failure_of(error: Exception) -> Failed:
    """Return the failure of a batch for the exception that is being handled."""
    return Failed(_kind(error), _text(error), traceback.format_exc())


def refusal_of(error: Exception) -> Failed:
    """Return the failure of a worker that cannot begin, for the exception that is being handled."""
    return Failed("refused", _text(error), traceback.format_exc())


def _text(error: Exception) -> str:
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def _kind(error: Exception) -> FailureKind:
    if isinstance(error, UnreadableError):
        return "refused"
    if _is_memory(error):
        return "memory"
    if _is_full_disk(error):
        return "full"
    return "error"


def _is_memory(error: BaseException) -> bool:
    """Return whether an exception, or one of its causes, means a lack of memory."""
    if is_out_of_memory(error):
        return True
    for cause in exception_chain(error):
        if isinstance(cause, Exception):
            text = text_of(cause, _SEARCHED).lower()
            if any(sign in text for sign in _MEMORY_TEXTS):
                return True
    return False


def _is_full_disk(error: BaseException) -> bool:
    return any(
        isinstance(cause, OSError) and cause.errno in _FULL for cause in exception_chain(error)
    )
