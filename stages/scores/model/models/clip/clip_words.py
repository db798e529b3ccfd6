"""Captions to the tokens of OpenAI's CLIP, without PyTorch: decoders need not load it. Held against OpenCLIP by tests.

Source: byte pair encoding, Sennrich et al. 2016; over bytes and with its vocabulary, Radford et al. 2019 and 2021.
"""

import gzip
import html
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

_FILE = "bpe_simple_vocab_16e6.txt.gz"
_MERGES = 49152 - 256 - 2  # so many of the file's lines after the first count
_MOST_CACHED = 1 << 17  # words
_PATTERN = (
    r"<start_of_text>|<end_of_text>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"  # of regex, not of re
)


class ClipWords:
    """Tokenises as OpenCLIP's ``SimpleTokenizer`` does with its own vocabulary, lower case. For several threads."""

    def __init__(self, vocabulary: Path) -> None:
        import regex

        lines = gzip.decompress(vocabulary.read_bytes()).decode().split("\n")
        self.merges = pairs = [tuple(line.split()) for line in lines[1 : 1 + _MERGES]]
        letters = _letters()
        units = list(letters.values())
        units += [unit + "</w>" for unit in units] + ["".join(pair) for pair in pairs]
        self.numbers = {unit: number for number, unit in enumerate([*units, "<start_of_text>", "<end_of_text>"])}
        self._ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self._letters = letters
        self._split: Any = regex.compile(_PATTERN, regex.IGNORECASE).findall
        self.start, self.end = len(units), len(units) + 1
        special = {"<start_of_text>": [self.start], "<end_of_text>": [self.end]}
        self._special, self._cache = special, dict[str, list[int]](special)

    def tokens(self, text: str, most: int) -> list[int]:
        """Return the tokens of a caption between those of start and end, at most ``most``."""
        import ftfy

        clean = html.unescape(html.unescape(ftfy.fix_text(text))).strip()
        found, cache = [self.start], self._cache
        for word in self._split(" ".join(clean.split()).lower()):
            found += cache.get(word) or self._merged(word)
            if len(found) >= most:
                break
        return [*found[: most - 1], self.end]

    def is_that_of(self, numbers: dict[str, int], ranks: dict[Any, int], pattern: str) -> bool:
        """Return whether another tokeniser has this vocabulary, these merges and this way to find words."""
        return (numbers, ranks, pattern) == (self.numbers, self._ranks, _PATTERN)

    def _merged(self, word: str) -> list[int]:
        """Join the two neighbours that come first in the list of merges, everywhere, until none is in it."""
        units = [self._letters[byte] for byte in word.encode()]
        units[-1] += "</w>"
        ranks, never = self._ranks, len(self._ranks)
        while len(units) > 1:
            pairs = list(pairwise(units))
            best = min(pairs, key=lambda pair: ranks.get(pair, never))
            if best not in ranks:
                break
            joined, at = [], 0
            while at < len(units):
                here = at < len(pairs) and pairs[at] == best
                joined.append(units[at] + units[at + 1] if here else units[at])
                at += 2 if here else 1
            units = joined
        found = [self.numbers[unit] for unit in units]
        if len(self._cache) >= _MOST_CACHED:
            self._cache = dict(self._special)
        self._cache[word] = found
        return found


@lru_cache(maxsize=1)
def clip_words() -> ClipWords | None:
    """Return the tokeniser, None if OpenCLIP's vocabulary is not found; OpenCLIP is not imported."""
    found = find_spec("open_clip")
    paths = [Path(folder, _FILE) for folder in (found.submodule_search_locations or ())] if found else []
    return next((ClipWords(path) for path in paths if path.is_file()), None)


def _letters() -> dict[int, str]:
    """Return a visible letter for each byte: its own where Latin-1 has one, else the next from 256 on."""
    own = [byte for byte in range(256) if 33 <= byte <= 126 or (byte >= 161 and byte != 173)]
    others = [byte for byte in range(256) if byte not in own]
    return {byte: chr(byte) for byte in own} | {byte: chr(256 + number) for number, byte in enumerate(others)}
