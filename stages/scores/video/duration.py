"""How long a video is."""

from dataclasses import dataclass
from typing import ClassVar

from ..base import ScoreError
from .video_facts import VideoFacts
from .video_score import VideoScore


@dataclass(frozen=True, kw_only=True)
class Duration(VideoScore):
    """Duration of the video in seconds, to the microsecond, by its header.

    That of the first video stream; of the whole file where the header tells no other. "unknown-duration" where it tells
    none, as in what was recorded live. From 0 on. Source: PyAV; Data-Juicer's video_duration rounds it to seconds.
    """

    name: ClassVar[str] = "duration"
    unit: ClassVar[str] = "seconds"
    low: ClassVar[float | None] = 0

    def of(self, facts: VideoFacts) -> float:
        """Return the duration."""
        if facts.duration is None:
            raise ScoreError("unknown-duration", "the header tells no duration")
        return round(float(facts.duration), 6)
