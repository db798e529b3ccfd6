"""Which whole pixels to resize where the part that is wanted begins between two."""

from typing import NamedTuple

_MOST_EXTRA = 12
_UNSEEN = 0.01  # output pixels: nobody sees such a shift
_EVEN = 0.577  # the root mean square of an error that runs evenly from -1 to 1


class Span(NamedTuple):
    """Pixels ``begin`` to ``end`` of one axis, to be resized at ``step`` source pixels for an output pixel.

    A resize starts at a whole pixel. If the part does not, the span begins ``extra`` output pixels earlier, where that
    is nearly one; they are cut off again. With ``flip`` all is counted from the other end of the axis. What is left of
    the error is spread over both edges: ``shift`` is its root mean square, in output pixels.
    """

    begin: int
    end: int
    extra: int
    step: float
    flip: bool
    shift: float


def span(start: float, stop: float, length: int, count: int) -> Span:
    """Return how to make ``count`` pixels of the part from ``start`` to ``stop`` of an axis of ``length`` pixels.

    >>> span(12, 44, 100, 16)
    Span(begin=12, end=44, extra=0, step=2.0, flip=False, shift=0.0)
    >>> span(12.5, 46.25, 100, 16)[:3]
    (2, 46, 5)
    """
    step = (stop - start) / count
    if start == int(start):
        return Span(int(start), _end(int(start), stop, length), 0, step, flip=False, shift=0.0)
    half, least, chosen = count / 2, 1e9, (0, 0, False)
    for flip, edge in ((False, start), (True, length - stop)):  # turning a picture round takes time
        for extra in range(_MOST_EXTRA + 1):
            place = edge - extra * step
            begin = round(place)
            shift = abs(place - begin) / step * half / (half + extra) * _EVEN
            if shift < least and place >= 0:
                least, chosen = shift, (begin, extra, flip)
            if least < _UNSEEN:
                break
        if least < _UNSEEN:
            break
    begin, extra, flip = chosen
    first, last = (length - stop, length - start) if flip else (start, stop)
    even = (first + half * step - begin) / (extra + half)
    return Span(begin, _end(begin, last, length), extra, even, flip, least)


def _end(begin: int, stop: float, length: int) -> int:
    return min(max(round(stop), begin + 1), length)
