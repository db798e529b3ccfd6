"""The log of a feed: through logging, or to stderr if logging is not set up."""

import logging
import sys
from contextlib import suppress

_log = logging.getLogger("wdsflow.training")


def say(level: int, text: str) -> None:
    """Log a text; where logging is not set up, write it to stderr, which would else show warnings only."""
    if _log.hasHandlers():
        _log.log(level, "%s", text)
    else:
        _write(text)


def cry(text: str) -> None:
    """Log a text as critical, and make sure that it is on stderr too."""
    if _log.hasHandlers():
        _log.critical("%s", text)
    if not _reaches_stderr():
        _write(text)


def _write(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # closed, or none: sys.stderr may be None
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _reaches_stderr() -> bool:
    logger: logging.Logger | None = _log
    while logger is not None:
        if any(isinstance(each, logging.StreamHandler) and each.stream is sys.stderr for each in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False
