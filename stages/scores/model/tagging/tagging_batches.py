"""Batches of sentences that are tagged together: bounded after padding, with little of it."""

from collections.abc import Sequence
from typing import NamedTuple

# The most padded words for each real one.
WASTE = 1.2


class Shape(NamedTuple):
    """The size of a sentence.

    Attributes:
        words: their number.
        longest: the characters of the longest word.
        characters: those of all words, with a space after each.
    """

    words: int
    longest: int
    characters: int


class TaggingBudget(NamedTuple):
    """The words and the characters that a batch may have after padding."""

    words: int = 5_000
    characters: int = 100_000

    def fits(self, words: int, word_characters: int, characters: int) -> bool:
        """Return whether a batch is within the budget.

        ``words``: after padding sentences to the one with the most words. ``word_characters``:
        after padding words to the longest, for a tagger with a character network. ``characters``:
        after padding sentences to the one with the most characters, for a tagger with a character
        language model.
        """
        return words <= self.words and max(word_characters, characters) <= self.characters


def shape_of(words: Sequence[str]) -> Shape:
    """Return the size of a sentence of at least one word."""
    lengths = [len(word) for word in words]
    return Shape(len(words), max(lengths), sum(lengths) + len(words) + 1)


def batches(shapes: Sequence[Shape], budget: TaggingBudget) -> list[list[int]]:
    """Return the positions of each batch, the longest sentences first.

    A batch is within the budget, and has at most ``WASTE`` padded words for each real one; a
    sentence that is above the budget by itself is a batch of its own.
    """
    order = sorted(
        range(len(shapes)),
        key=lambda position: (-shapes[position].words, -shapes[position].longest, position),
    )
    finished: list[list[int]] = []
    # Of the last batch: its words, the characters of its
    # longest word, and those of its longest sentence.
    words = longest = characters = 0
    for position in order:
        shape = shapes[position]
        if finished:
            batch = finished[-1]
            size = len(batch) + 1
            # The first sentence of a batch is the one with the most words.
            padded_words = size * shapes[batch[0]].words
            new_words = words + shape.words
            new_longest = max(longest, shape.longest)
            new_characters = max(characters, shape.characters)
            is_within = budget.fits(padded_words, new_words * new_longest, size * new_characters)
            if is_within and padded_words <= WASTE * new_words:
                batch.append(position)
                words, longest, characters = new_words, new_longest, new_characters
                continue
        finished.append([position])
        words, longest, characters = shape
    return finished
