"""Scores from a video's header."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..base import Scalar, Score, Subject, Tier, Value, bare
from .video_facts import VideoFacts

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class VideoScore(Score):
    """A score from each video's header. ``video`` names the field, "" is mp4, webm, mkv, avi or mov."""

    tier: ClassVar[Tier] = "header"
    subject: ClassVar[Subject] = "video"
    needs: ClassVar[tuple[str, ...]] = ("video",)
    packages: ClassVar[tuple[str, ...]] = ("av",)

    video: str = ""

    @abstractmethod
    def of(self, facts: VideoFacts) -> Scalar:
        """Return the value of one video."""

    def score(self, view: "View") -> Value:
        """Return the value of the sample's videos."""
        return bare([self.of(facts) for facts in view.videos(self.video)])
