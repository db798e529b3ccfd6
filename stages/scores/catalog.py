"""All scores by name: ours, and those that other distributions bring by entry points."""

import difflib
from dataclasses import fields
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from .aesthetic import Aesthetic
from .alnum_ratio import AlnumRatio
from .animated import Animated
from .aspect_ratio import AspectRatio
from .base import Score
from .blur import Blur
from .brightness import Brightness
from .bytes import Bytes
from .caption_count import CaptionCount
from .caption_length import CaptionLength
from .caption_perplexity import CaptionPerplexity
from .caption_tokens import CaptionTokens
from .caption_words import CaptionWords
from .char_repetition import CharRepetition
from .classify import Classify
from .clip_similarity import ClipSimilarity
from .contrast import Contrast
from .duplicate import Duplicate
from .duration import Duration
from .entities import Entities
from .entropy import Entropy
from .flagged_words import FlaggedWords
from .format import Format
from .fps import Fps
from .has_pii import HasPii
from .has_url import HasUrl
from .height import Height
from .image_text_match import ImageTextMatch
from .is_blank import IsBlank
from .is_filename_like import IsFilenameLike
from .language import Language
from .language_score import LanguageScore
from .min_side import MinSide
from .mode import Mode
from .near_duplicate import NearDuplicate
from .ocr_area import OcrArea
from .ocr_caption_overlap import OcrCaptionOverlap
from .ocr_text import OcrText
from .orientation import Orientation
from .phash import Phash
from .pixels import Pixels
from .pos import Pos
from .special_char_ratio import SpecialCharRatio
from .text_classify import TextClassify
from .video_height import VideoHeight
from .video_width import VideoWidth
from .width import Width
from .word_repetition import WordRepetition
from .zero_shot import ZeroShot

GROUP = "wdsflow.scores"  # entry points: name = "package.module:ClassName"

# A score that is not in here is not shipped: nothing registers itself by being imported.
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
    """Return our scores and those of the entry points in the group ``wdsflow.scores``; ours win.

    Raises ValueError where an entry point is no score, or has another name than its score.
    """
    found = {}
    for entry in entry_points(group=GROUP):
        score = entry.load()
        if not (isinstance(score, type) and issubclass(score, Score)) or score.name != entry.name:
            raise ValueError(f"the entry point {entry.name!r} ({entry.value}) in {GROUP!r} is no score of that name")
        found[entry.name] = score
    return {**found, **SCORES}


def make_score(name: str, /, **settings: Any) -> Score:
    """Return the score of a name with settings. Raises ValueError; an unknown name is answered with the nearest.

    >>> make_score("min_side").tier
    'header'
    """
    kind = SCORES.get(name) or all_scores().get(name)
    if kind is None:
        raise ValueError(f"there is no score {name!r}{_nearest(name, all_scores())}")
    known = [item.name for item in fields(kind) if item.init]
    for setting in settings:
        if setting not in known:
            raise ValueError(f"{name} has no setting {setting!r}{_nearest(setting, known)}")
    return kind(**settings)


def _nearest(name: str, names: Any) -> str:
    near = difflib.get_close_matches(name, names, 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(sorted(names))}"
