"""The facts in the header of a video."""

import re
from fractions import Fraction
from typing import Any, NamedTuple

from ..held_fields import FieldReader
from ..score_errors import ScoreError
from .container import opened, video_stream

_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)")


class VideoFacts(NamedTuple):
    """Facts of the first video stream; None for what the header does not tell.

    ``duration`` is in seconds. It is the stream's own, except where Matroska knows that of the whole file only:
    ``exact`` is False then. ``width`` and ``height`` are those of the stored frames: rotation is ignored.
    """

    duration: Fraction | None
    exact: bool
    fps: Fraction | None
    width: int
    height: int
    frames: int | None


def video_facts(reader: FieldReader, name: str) -> VideoFacts:
    """Return the facts of a field; no frame is decoded. Raises ScoreError."""
    with opened(reader, name) as container:
        return facts_of(container, video_stream(container), reader.fields.size(name))


def facts_of(container: Any, stream: Any, size: int) -> VideoFacts:
    """Return the facts of an open video of ``size`` bytes. Raises ScoreError."""
    context = stream.codec_context
    if context is None:
        raise ScoreError("undecodable", "its codec is unknown")
    if not (context.width > 0 and context.height > 0):
        raise ScoreError("unknown-size", "the header has no width and height")
    index = stream.index_entries
    if len(index) and index[-1].pos + index[-1].size > size:
        raise ScoreError("truncated", f"its last frame ends at byte {index[-1].pos + index[-1].size:,} of {size:,}")
    duration, exact = _duration(container, stream)
    rate = stream.average_rate or stream.guessed_rate
    return VideoFacts(duration, exact, rate or None, context.width, context.height, stream.frames or None)


def _duration(container: Any, stream: Any) -> tuple[Fraction | None, bool]:
    if stream.duration is not None and stream.duration > 0 and stream.time_base:
        return stream.duration * stream.time_base, True
    clock = _CLOCK.match(stream.metadata.get("DURATION", ""))
    if clock is not None:
        hours, minutes, seconds = clock.groups()
        seconds = (int(hours) * 60 + int(minutes)) * 60 + Fraction(seconds)
        if seconds > 0:
            return seconds, True
    if container.duration is not None and container.duration > 0:
        return Fraction(container.duration, 1_000_000), False
    return None, False
