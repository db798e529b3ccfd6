"""Spans: which pixels of an axis a resize takes, if it can only start at a whole pixel."""

from typing import NamedTuple

_MOST_EXTRA = 12
# Output pixels: an invisible shift.
_INVISIBLE = 0.01
# The root mean square of an error that is uniform from -1 to 1.
_UNIFORM_RMS = 0.577


class Span(NamedTuple):
    """Pixels ``begin`` to ``end`` of one axis, to be resized.

    ``step`` is the number of source pixels for an output pixel.

    A resize starts at a whole pixel. If the part does not, the span begins ``extra`` output pixels
    earlier, close to a whole pixel; these are cut off afterwards. With ``flip``, positions count
    from the other end of the axis. The remaining error is spread over both edges: ``shift`` is its
    root mean square, in output pixels.
    """

    begin: int
    end: int
    extra: int
    step: float
    flip: bool
    shift: float


class _Start(NamedTuple):
    """A whole pixel at which a resize starts.

    It is ``shift`` output pixels (root mean square) from the right position.
    """

    shift: float
    begin: int
    extra: int
    flip: bool


def span(start: float, stop: float, length: int, count: int) -> Span:
    """Return the span that makes ``count`` pixels of a part of an axis.

    The part is from ``start`` to ``stop``, and the axis has ``length`` pixels.

    >>> span(12, 44, 100, 16)
    Span(begin=12, end=44, extra=0, step=2.0, flip=False, shift=0.0)
    >>> span(12.5, 46.25, 100, 16)[:3]
    (2, 46, 5)
    """
    step = (stop - start) / count
    if start == int(start):
        begin = int(start)
        return Span(begin, _end(begin, stop, length), 0, step, flip=False, shift=0.0)
    chosen = _best_start(start, length - stop, step, count)
    if chosen.flip:
        first, last = length - stop, length - start
    else:
        first, last = start, stop
    half = count / 2
    # The step that puts the middle of the part at the middle of the outputs.
    centred_step = (first + half * step - chosen.begin) / (chosen.extra + half)
    end = _end(chosen.begin, last, length)
    return Span(chosen.begin, end, chosen.extra, centred_step, chosen.flip, chosen.shift)


def _best_start(before: float, after: float, step: float, count: int) -> _Start:
    """Return the start with the least shift.

    ``before`` and ``after`` are the pixels on both sides of the part.
    """
    half = count / 2
    best = _Start(1e9, 0, 0, flip=False)
    # Unflipped first: flipping takes time.
    for flip, edge in ((False, before), (True, after)):
        for extra in range(_MOST_EXTRA + 1):
            position = edge - extra * step
            begin = round(position)
            shift = abs(position - begin) / step * half / (half + extra) * _UNIFORM_RMS
            if shift < best.shift and position >= 0:
                best = _Start(shift, begin, extra, flip)
            if best.shift < _INVISIBLE:
                return best
    return best


def _end(begin: int, stop: float, length: int) -> int:
    return min(max(round(stop), begin + 1), length)
