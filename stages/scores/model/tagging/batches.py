"""Which sentences go together: a batch is bounded by what it takes once all are padded, never by a sum."""

from collections.abc import Sequence
from typing import NamedTuple

WASTE = 1.2  # padded words for each real one, at most


class Shape(NamedTuple):
    """The size of a sentence: its words, the characters of its longest word, and of all with a space after each."""

    words: int
    longest: int
    characters: int


class Cells(NamedTuple):
    """What a batch takes once it is padded.

    ``words``: each sentence is as long as the longest. ``word_characters``: each word is, for a tagger with a character
    network of its own. ``characters``: each sentence is, for one with a character language model.
    """

    words: int
    word_characters: int
    characters: int


class TaggingBudget(NamedTuple):
    """Cells that a batch may have."""

    words: int = 5_000
    characters: int = 100_000

    def fits(self, cells: Cells) -> bool:
        """Return whether a batch is within the budget."""
        return cells.words <= self.words and max(cells.word_characters, cells.characters) <= self.characters


def shape_of(words: Sequence[str]) -> Shape:
    """Return the size of a sentence, which has a word."""
    lengths = [len(word) for word in words]
    return Shape(len(words), max(lengths), sum(lengths) + len(words) + 1)


def batches(shapes: Sequence[Shape], budget: TaggingBudget, waste: float = WASTE) -> list[list[int]]:
    """Return the positions of each batch, the longest sentences first.

    A batch is within the budget, and has at most ``waste`` padded words for each real one; a sentence that is above the
    budget by itself is a batch of its own.
    """
    rest = sorted(range(len(shapes)), key=lambda at: (-shapes[at].words, -shapes[at].longest, at))
    made: list[list[int]] = []
    words = longest = characters = 0
    for at in rest:
        shape = shapes[at]
        if made:
            size, most = len(made[-1]) + 1, shapes[made[-1][0]].words
            words, longest = words + shape.words, max(longest, shape.longest)
            characters = max(characters, shape.characters)
            cells = Cells(size * most, words * longest, size * characters)
            if budget.fits(cells) and cells.words <= waste * words:
                made[-1].append(at)
                continue
        made.append([at])
        words, longest, characters = shape
    return made
