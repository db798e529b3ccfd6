"""The duration of a video."""

from dataclasses import dataclass
from typing import ClassVar

from ..base import ScoreError
from .video_facts import VideoFacts
from .video_score import VideoScore


@dataclass(frozen=True, kw_only=True)
class Duration(VideoScore):
    """Duration of the video in seconds, to the microsecond, by its header.

    That of the first video stream, or of the whole file if the header has no other. "unknown-duration" if it has none,
    as in live recordings. From 0 on. Source: PyAV; Data-Juicer's video_duration rounds it to seconds.
    """

    name: ClassVar[str] = "duration"
    unit: ClassVar[str] = "seconds"
    low: ClassVar[float | None] = 0

    def of(self, facts: VideoFacts) -> float:
        """Return the duration."""
        if facts.duration is None:
            raise ScoreError("unknown-duration", "the header has no duration")
        return round(float(facts.duration), 6)
