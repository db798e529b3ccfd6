"""Scores from the headers of videos."""

from .base import ScoreError
from .simple_score import simple_score
from .video_facts import VideoFacts


@simple_score(unit="seconds", low=0)
def duration(facts: VideoFacts) -> float:
    """Duration of the video in seconds, to the microsecond, by its header.

    That of the first video stream, or of the whole file if the header has no other.
    "unknown-duration" if it has none, as in live recordings. From 0 on. Source: PyAV; Data-Juicer's
    video_duration rounds it to seconds.
    """
    if facts.duration is None:
        raise ScoreError("unknown-duration", "the header has no duration")
    return round(float(facts.duration), 6)


@simple_score(unit="frames/s", low=0)
def fps(facts: VideoFacts) -> float:
    """Frames per second of the video: the mean by its header, otherwise FFmpeg's guess.

    "unknown-fps" if there is neither. From 0 on. Source: PyAV's average_rate, guessed_rate.
    """
    if facts.fps is None:
        raise ScoreError("unknown-fps", "the header has no frame rate")
    return round(float(facts.fps), 6)


@simple_score(unit="pixels", low=1)
def video_height(facts: VideoFacts) -> int:
    """Height of the video's frames in pixels, as stored: a rotation in the header is ignored.

    From 1 on. Source: PyAV; Data-Juicer's video_height.
    """
    return facts.height


@simple_score(unit="pixels", low=1)
def video_width(facts: VideoFacts) -> int:
    """Width of the video's frames in pixels, as stored: a rotation in the header is ignored.

    From 1 on. Source: PyAV; Data-Juicer's video_width.
    """
    return facts.width
