"""All scores by name: wdsflow's own, and those of other distributions by entry points."""

import difflib
from dataclasses import fields
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from .base import Score
from .dataset.caption_count import CaptionCount
from .dataset.duplicate import Duplicate
from .dataset.near_duplicate import NearDuplicate
from .header.animated import Animated
from .header.aspect_ratio import AspectRatio
from .header.bytes import Bytes
from .header.format import Format
from .header.height import Height
from .header.min_side import MinSide
from .header.mode import Mode
from .header.orientation import Orientation
from .header.pixels import Pixels
from .header.width import Width
from .image.blur import Blur
from .image.brightness import Brightness
from .image.contrast import Contrast
from .image.entropy import Entropy
from .image.is_blank import IsBlank
from .image.phash import Phash
from .model.aesthetic import Aesthetic
from .model.caption_perplexity import CaptionPerplexity
from .model.classify import Classify
from .model.clip_similarity import ClipSimilarity
from .model.entities import Entities
from .model.image_text_match import ImageTextMatch
from .model.ocr_area import OcrArea
from .model.ocr_caption_overlap import OcrCaptionOverlap
from .model.ocr_text import OcrText
from .model.pos import Pos
from .model.text_classify import TextClassify
from .model.zero_shot import ZeroShot
from .text.alnum_ratio import AlnumRatio
from .text.caption_length import CaptionLength
from .text.caption_tokens import CaptionTokens
from .text.caption_words import CaptionWords
from .text.char_repetition import CharRepetition
from .text.flagged_words import FlaggedWords
from .text.has_pii import HasPii
from .text.has_url import HasUrl
from .text.is_filename_like import IsFilenameLike
from .text.language import Language
from .text.language_score import LanguageScore
from .text.special_char_ratio import SpecialCharRatio
from .text.word_repetition import WordRepetition
from .video.duration import Duration
from .video.fps import Fps
from .video.video_height import VideoHeight
from .video.video_width import VideoWidth

GROUP = "wdsflow.scores"  # entry points: name = "package.module:ClassName"

# Only scores listed here are shipped: nothing registers itself on import.
SCORES: dict[str, type[Score]] = {
    score.name: score
    for score in (
        Width,
        Height,
        MinSide,
        Pixels,
        AspectRatio,
        Format,
        Mode,
        Bytes,
        Orientation,
        Animated,
        Duration,
        Fps,
        VideoWidth,
        VideoHeight,
        CaptionLength,
        CaptionWords,
        AlnumRatio,
        SpecialCharRatio,
        CharRepetition,
        WordRepetition,
        CaptionTokens,
        IsFilenameLike,
        HasUrl,
        HasPii,
        Language,
        LanguageScore,
        FlaggedWords,
        Blur,
        Brightness,
        Contrast,
        Entropy,
        IsBlank,
        Phash,
        Duplicate,
        NearDuplicate,
        CaptionCount,
        ClipSimilarity,
        ZeroShot,
        Aesthetic,
        ImageTextMatch,
        Classify,
        CaptionPerplexity,
        TextClassify,
        OcrArea,
        OcrText,
        OcrCaptionOverlap,
        Pos,
        Entities,
    )
}


@cache
def all_scores() -> dict[str, type[Score]]:
    """Return wdsflow's scores and those of the entry points in the group ``wdsflow.scores``; the former take precedence.

    Raises ValueError if an entry point is no score, or has another name than its score.
    """
    found = {}
    for entry in entry_points(group=GROUP):
        score = entry.load()
        if not (isinstance(score, type) and issubclass(score, Score)) or score.name != entry.name:
            raise ValueError(f"the entry point {entry.name!r} ({entry.value}) in {GROUP!r} is not a score of that name")
        found[entry.name] = score
    return {**found, **SCORES}


def make_score(name: str, /, **settings: Any) -> Score:
    """Return the score of a name with settings. Raises ValueError; for an unknown name it suggests the nearest.

    >>> make_score("min_side").tier
    'header'
    """
    kind = SCORES.get(name) or all_scores().get(name)
    if kind is None:
        raise ValueError(f"no score is called {name!r}{_nearest(name, all_scores())}")
    known = [item.name for item in fields(kind) if item.init]
    for setting in settings:
        if setting not in known:
            raise ValueError(f"{name} has no setting {setting!r}{_nearest(setting, known)}")
    return kind(**settings)


def _nearest(name: str, names: Any) -> str:
    near = difflib.get_close_matches(name, names, 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else f"; use one of {', '.join(sorted(names))}"
