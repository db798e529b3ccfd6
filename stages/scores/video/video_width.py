"""The width of a video."""

from dataclasses import dataclass
from typing import ClassVar

from .video_facts import VideoFacts
from .video_score import VideoScore


@dataclass(frozen=True, kw_only=True)
class VideoWidth(VideoScore):
    """Width of the video's frames in pixels, as stored: a rotation in the header is ignored.

    From 1 on. Source: PyAV; Data-Juicer's video_width.
    """

    name: ClassVar[str] = "video_width"
    unit: ClassVar[str] = "pixels"
    low: ClassVar[float | None] = 1

    def of(self, facts: VideoFacts) -> int:
        """Return the width."""
        return facts.width
