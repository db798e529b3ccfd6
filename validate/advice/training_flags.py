"""Flags of a training command: found, changed and merged."""

from collections.abc import Sequence
from itertools import pairwise


def train_data(training: Sequence[str]) -> str | None:
    """Return the shards that a training command reads."""
    for number, word in enumerate(training):
        flag, equals, value = word.partition("=")
        if flag == "--train-data" and (equals or training[number + 1 :]):
            return value if equals else training[number + 1]
    return None


def with_flags(training: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return the training command with changed or new flags."""
    valued = {name: bool(value) for name, *value in paired_flags(flags)}
    words, skip = list[str](), False
    for word in training:
        if skip and not word.startswith("--"):
            skip = False
            continue
        skip = valued.get(word, False)
        if not skip and word.partition("=")[0] not in valued:
            words.append(word)
    return [*words, *flags]


def paired_flags(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each flag with its values: ``[("--workers", "2"), ("--dataset-resampled",)]``."""
    borders = [*(index for index, word in enumerate(words) if word.startswith("--")), len(words)]
    return [tuple(words[start:end]) for start, end in pairwise(borders)]


def merged_flags(flags: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return flags with those of others, which win."""
    found = {each[0]: each for each in (*paired_flags(flags), *paired_flags(others))}
    return tuple(word for each in found.values() for word in each)
