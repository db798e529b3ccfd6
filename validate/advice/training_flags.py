"""Flags of a training command: found, changed and merged."""

from collections.abc import Sequence
from itertools import pairwise


def train_data(training: Sequence[str]) -> str | None:
    """Return the shards that a training command reads."""
    for index, word in enumerate(training):
        flag, equals, value = word.partition("=")
        if flag != "--train-data":
            continue
        if equals:
            return value
        if index + 1 < len(training):
            return training[index + 1]
    return None


def with_flags(training: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return the training command with changed or new flags."""
    # Flag -> whether it has a value.
    changed: dict[str, bool] = {}
    for name, *values in flags_with_values(flags):
        changed[name] = bool(values)
    words: list[str] = []
    # The word before was a changed flag: this one may be its value.
    skips_value = False
    for word in training:
        if skips_value and not word.startswith("--"):
            skips_value = False
            continue
        skips_value = changed.get(word, False)
        if not skips_value and word.partition("=")[0] not in changed:
            words.append(word)
    return [*words, *flags]


def flags_with_values(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each flag with its values: ``[("--workers", "2"), ("--dataset-resampled",)]``."""
    borders = [index for index, word in enumerate(words) if word.startswith("--")]
    borders.append(len(words))
    return [tuple(words[start:end]) for start, end in pairwise(borders)]


def merged_flags(flags: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return flags with those of others, which win."""
    merged: dict[str, tuple[str, ...]] = {}
    for flag in flags_with_values([*flags, *others]):
        merged[flag[0]] = flag
    words: list[str] = []
    for flag in merged.values():
        words += flag
    return tuple(words)
