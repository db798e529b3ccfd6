"""Videos, which PyAV reads in parts: opening them, and facts from their headers."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsflow.media import SIZE_HEAD, least_size

from .sample_fields import FieldFile, FieldReader, ScoreError

if TYPE_CHECKING:
    from av.container import InputContainer

# PyAV's types allow None for times that an open video has.
VideoStream = Any

# No playlists, manifests and the like: they make FFmpeg
# open the files and addresses that they name.
_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"
# Types of boxes with which an MP4 or MOV begins.
_MP4_BOXES = {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide"}
_MATROSKA = b"\x1aE\xdf\xa3"

_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)")


class VideoFacts(NamedTuple):
    """Facts of the first video stream; None if the header lacks one.

    ``duration`` is in seconds. It is the stream's own; if Matroska has only that of the whole file,
    ``exact`` is False. ``width`` and ``height`` are those of the stored frames: rotation is
    ignored.
    """

    duration: Fraction | None
    exact: bool
    fps: Fraction | None
    width: int
    height: int
    frames: int | None


@contextmanager
def opened(
    reader: FieldReader, name: str
) -> "Iterator[tuple[InputContainer, VideoStream, VideoFacts]]":
    """Open a field with PyAV, and yield the container, the video stream and its facts.

    The stream is the first video stream that is not a cover picture.

    Raises ScoreError, also for PyAV's errors in the block. Slugs: "not-a-video" (not MP4, MOV,
    Matroska, WebM or AVI), "truncated", "undecodable", "unknown-size", "no-video-stream",
    "not-installed".
    """
    try:
        import av
    except ImportError:
        from wdsflow.text.install import install_extras

        raise ScoreError("not-installed", f"videos need PyAV: {install_extras('video')}") from None
    size = reader.fields.size(name)
    if not size:
        raise ScoreError("not-a-video", "it is empty")
    least = least_size(reader.read(name, 0, SIZE_HEAD))
    if least > size:
        raise ScoreError("truncated", f"it has {size:,} of {least:,} bytes")
    options = {"format_whitelist": _FORMATS, "protocol_whitelist": "none"}
    try:
        with av.open(
            FieldFile(reader, name), "r", options=options, metadata_errors="replace"
        ) as container:
            stream = _first_stream(container)
            if stream is None:
                count = len(container.streams)
                raise ScoreError(
                    "no-video-stream", f"there are {count} streams, none of them a video"
                )
            yield container, stream, _facts_of(container, stream, size)
    except av.error.FFmpegError as error:
        slug = _slug(reader, name, error)
        raise ScoreError(slug, f"{size:,} bytes: {str(error)[:200]}") from None


def video_facts(reader: FieldReader, name: str) -> VideoFacts:
    """Return the facts of a field; no frame is decoded. Raises ScoreError."""
    with opened(reader, name) as (_container, _stream, facts):
        return facts


def _first_stream(container: "InputContainer") -> VideoStream | None:
    for stream in container.streams.video:
        if "attached_pic" not in str(stream.disposition):
            return stream
    return None


def _slug(reader: FieldReader, name: str, error: Exception) -> str:
    # PyAV's, if a part is missing.
    if type(error).__name__ in ("EOFError", "OSError"):
        return "truncated"
    head = reader.read(name, 0, 16)
    is_mp4 = head[4:8] in _MP4_BOXES
    is_matroska = head[:4] == _MATROSKA
    is_avi = head[:4] == b"RIFF" and head[8:12] == b"AVI "
    return "undecodable" if is_mp4 or is_matroska or is_avi else "not-a-video"


def _facts_of(container: "InputContainer", stream: VideoStream, size: int) -> VideoFacts:
    context = stream.codec_context
    if context is None:
        raise ScoreError("undecodable", "its codec is unknown")
    if not (context.width > 0 and context.height > 0):
        raise ScoreError("unknown-size", "the header has no width and height")
    index = stream.index_entries
    if len(index):
        end = index[-1].pos + index[-1].size
        if end > size:
            raise ScoreError("truncated", f"its last frame ends at byte {end:,} of {size:,}")
    duration, exact = _duration(container, stream)
    rate = stream.average_rate or stream.guessed_rate
    frames = stream.frames or None
    return VideoFacts(duration, exact, rate or None, context.width, context.height, frames)


def _duration(container: "InputContainer", stream: VideoStream) -> tuple[Fraction | None, bool]:
    if stream.duration is not None and stream.duration > 0 and stream.time_base:
        return stream.duration * stream.time_base, True
    clock = _CLOCK.match(stream.metadata.get("DURATION", ""))
    if clock is not None:
        hours, minutes, seconds = clock.groups()
        duration = (int(hours) * 60 + int(minutes)) * 60 + Fraction(seconds)
        if duration > 0:
            return duration, True
    if container.duration is not None and container.duration > 0:
        return Fraction(container.duration, 1_000_000), False
    return None, False
