"""A field of a sample, opened as a video: read in parts as PyAV asks for them, never written to the disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wdsflow.media.least_size import HEAD, least_size
from wdsflow.text.install import install_extras

from ..held_fields import FieldReader, as_file
from ..score_errors import ScoreError

# Not playlists, manifests and the like: these make FFmpeg open other files and addresses that they name.
_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"
_TRUNCATED = frozenset(("EOFError", "OSError"))  # PyAV's, when a part is missing


@contextmanager
def opened(reader: FieldReader, name: str) -> Iterator[Any]:
    """Open a field as PyAV's container. Raises ScoreError, also for what PyAV raises inside of the block.

    Slugs: "not-a-video" (another format than MP4, MOV, Matroska, WebM and AVI), "truncated", "undecodable",
    "no-video-stream", "not-installed".
    """
    try:
        import av
    except ImportError:
        raise ScoreError("not-installed", f"videos need PyAV: {install_extras('video')}") from None
    size = reader.fields.size(name)
    if not size:
        raise ScoreError("not-a-video", "it is empty")
    least = least_size(reader.read(name, 0, HEAD))
    if least > size:
        raise ScoreError("truncated", f"it has {size:,} of {least:,} bytes")
    options = {"format_whitelist": _FORMATS, "protocol_whitelist": "none"}
    try:
        with av.open(as_file(reader, name), "r", options=options, metadata_errors="replace") as container:
            yield container
    except av.error.FFmpegError as error:
        raise ScoreError(_slug(reader, name, error), f"{size:,} bytes: {str(error)[:200]}") from None


def video_stream(container: Any) -> Any:
    """Return the first stream that is a video and no cover picture. Raises ScoreError."""
    for stream in container.streams.video:
        if "attached_pic" not in str(stream.disposition):
            return stream
    raise ScoreError("no-video-stream", f"there are {len(container.streams)} streams, none of them a video")


def _slug(reader: FieldReader, name: str, error: Exception) -> str:
    if type(error).__name__ in _TRUNCATED:
        return "truncated"
    head = reader.read(name, 0, 16)
    known = head[4:8] in {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide"}
    known = known or head[:4] == b"\x1aE\xdf\xa3" or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")
    return "undecodable" if known else "not-a-video"
