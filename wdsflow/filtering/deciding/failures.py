"""Distinguishes faults of a sample, which cost its score, from faults of the shard or the disk, which end the shard."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from wdsflow.filtering.where.language.values import Unknown
from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.source.base import SourceError
from wdsflow.stages.scores.base import ScoreError

V = TypeVar("V")

RAISED = Exception, SystemExit  # SystemExit: from libraries that behave like programs
_KEPT_IN_DETAIL = 500  # characters
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # address of an object in memory: it differs in each run


def guarded(compute: Callable[[V], Any], view: V) -> Any:
    """Return the result of ``compute``, or Unknown: a bad sample never ends its shard. Raises OSError."""
    try:
        return compute(view)
    except RAISED as error:
        return failed(error)


def failed(error: BaseException) -> Unknown:
    """Return why a score could not be computed. Raises the error if it is the fault of the shard or the disk."""
    if isinstance(error, ScoreError):
        return Unknown(error.slug, without_addresses(error.detail))
    if isinstance(error, MemoryError):
        return Unknown("out-of-memory")
    if isinstance(error, SourceError) or (isinstance(error, OSError) and error.errno in UNREADABLE):
        raise error
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception whose text raises is still an exception
        text = ""
    return Unknown(f"raised-{type(error).__name__}", without_addresses(text))


def without_addresses(text: str) -> str:
    """Return the text of an error as it is kept: 500 characters, the same in each run."""
    return _ADDRESS.sub("", text)[:_KEPT_IN_DETAIL]
