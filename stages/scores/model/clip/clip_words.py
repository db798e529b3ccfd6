"""Captions as tokens of OpenAI's CLIP, without importing OpenCLIP.

Tests compare them with OpenCLIP's.

Source: byte pair encoding, Sennrich et al. 2016; over bytes and with its vocabulary, Radford et al.
2019 and 2021.
"""

import gzip
import html
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

START = "<start_of_text>"
END = "<end_of_text>"
# Of the module regex, not of re.
PATTERN = r"<start_of_text>|<end_of_text>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
_FILE = "bpe_simple_vocab_16e6.txt.gz"
# Lines of the file that are used, after the first.
_MERGES = 49152 - 256 - 2
# Marks a unit that ends a word.
_WORD_END = "</w>"
# Words.
_MOST_CACHED = 1 << 17


class ClipWords:
    """Tokenises as OpenCLIP's ``SimpleTokenizer`` with its own vocabulary.

    Text is converted to lower case. Thread-safe.

    Attributes:
        merges: the pairs of units that are merged, in their order.
        ranks: the index of each pair among them.
        numbers: the token of each unit.
    """

    def __init__(self, vocabulary: Path) -> None:
        import regex

        lines = gzip.decompress(vocabulary.read_bytes()).decode().split("\n")
        self.merges = [tuple(line.split()) for line in lines[1 : 1 + _MERGES]]
        self.ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._letters = _byte_letters()
        units = list(self._letters.values())
        units += [letter + _WORD_END for letter in self._letters.values()]
        units += ["".join(pair) for pair in self.merges]
        units += [START, END]
        self.numbers = {unit: number for number, unit in enumerate(units)}
        self.start = self.numbers[START]
        self.end = self.numbers[END]
        self._split: Callable[[str], list[str]] = regex.compile(PATTERN, regex.IGNORECASE).findall
        self._special = {START: [self.start], END: [self.end]}
        # The tokens of words.
        self._cache = dict(self._special)

    def tokens(self, text: str, most: int) -> list[int]:
        """Return the tokens of a caption between those of start and end, at most ``most``."""
        import ftfy

        clean = html.unescape(html.unescape(ftfy.fix_text(text))).strip()
        # Another thread may replace the cache.
        cache = self._cache
        tokens = [self.start]
        for word in self._split(" ".join(clean.split()).lower()):
            tokens += cache.get(word) or self._word_tokens(word)
            if len(tokens) >= most:
                break
        return [*tokens[: most - 1], self.end]

    def _word_tokens(self, word: str) -> list[int]:
        """Return the tokens of a word, and cache them."""
        units = [self._letters[byte] for byte in word.encode()]
        units[-1] += _WORD_END
        tokens = [self.numbers[unit] for unit in self._merged(units)]
        if len(self._cache) >= _MOST_CACHED:
            self._cache = dict(self._special)
        self._cache[word] = tokens
        return tokens

    def _merged(self, units: list[str]) -> list[str]:
        """Merge neighbouring units until no pair has a rank.

        Each step merges the pair of the lowest rank, wherever it occurs.
        """
        no_rank = len(self.ranks)
        while len(units) > 1:
            best = min(pairwise(units), key=lambda pair: self.ranks.get(pair, no_rank))
            if best not in self.ranks:
                break
            units = _with_pair_merged(units, best)
        return units


@lru_cache(maxsize=1)
def clip_words() -> ClipWords | None:
    """Return the tokeniser; None if OpenCLIP's vocabulary is not installed.

    OpenCLIP is not imported.
    """
    spec = find_spec("open_clip")
    if spec is None:
        return None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, _FILE)
        if path.is_file():
            return ClipWords(path)
    return None


def _with_pair_merged(units: list[str], pair: tuple[str, str]) -> list[str]:
    """Return units in which each occurrence of a pair of neighbours has become one unit."""
    merged: list[str] = []
    position = 0
    while position < len(units):
        if tuple(units[position : position + 2]) == pair:
            merged.append("".join(pair))
            position += 2
        else:
            merged.append(units[position])
            position += 1
    return merged


def _byte_letters() -> dict[int, str]:
    """Return a visible letter for each byte.

    It is that of Latin-1 if it is visible, otherwise the next from 256 on.
    """
    letters: dict[int, str] = {}
    hidden: list[int] = []
    for byte in range(256):
        if 33 <= byte <= 126 or (byte >= 161 and byte != 173):
            letters[byte] = chr(byte)
        else:
            hidden.append(byte)
    # The order of the vocabulary: visible ones first.
    for number, byte in enumerate(hidden):
        letters[byte] = chr(256 + number)
    return letters
