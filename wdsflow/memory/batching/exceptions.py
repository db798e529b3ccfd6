"""Exceptions as texts, with their causes, and without their frames."""

import traceback
from collections.abc import Iterator

# Characters of an exception's text.
_KEPT = 500


def describe(error: BaseException, most: int = _KEPT) -> str:
    """Return the class and text of an exception, at most ``most`` characters."""
    text = text_of(error, most)
    return f"{type(error).__name__}: {text}"[:most] if text else type(error).__name__


def text_of(error: BaseException, most: int = _KEPT) -> str:
    """Return the text of an exception, at most ``most`` characters.

    "" if it has none, or cannot be printed.
    """
    try:
        return str(error)[:most]
    except Exception:  # noqa: BLE001 - an exception whose text raises is still an exception
        return ""


def drop_frames(error: BaseException, outside: BaseException | None = None) -> None:
    """Clear the frames of an exception, which hold the tensors of a batch.

    The frames of ``outside`` stay.
    """
    for cause in exception_chain(error, outside):
        traceback.clear_frames(cause.__traceback__)
        cause.__traceback__ = None


def exception_chain(
    error: BaseException, outside: BaseException | None = None
) -> Iterator[BaseException]:
    """Yield an exception, its causes and the members of a group, each once.

    ``outside`` and its causes are skipped.
    """
    seen: set[int] = set()
    if outside is not None:
        seen.add(id(outside))
    heap = [error]
    while heap:
        cause = heap.pop()
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        # Even if "from None" hides it.
        heap += [more for more in (cause.__context__, cause.__cause__) if more is not None]
        # ExceptionGroup, Python 3.11 and later.
        members = getattr(cause, "exceptions", None)
        if isinstance(members, tuple):
            heap += [member for member in members if isinstance(member, BaseException)]
