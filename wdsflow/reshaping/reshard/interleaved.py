"""Samples whose members are not adjacent.

Resharding would write each of them as several samples.
"""

from array import array
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice, pairwise

import numpy as np

from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.text.shell import escape

from .reshard_report import InputReport


class InterleavedMembers(ValueError):
    """Samples whose members are not next to each other."""


class KeysAndFields:
    """The key and the fields of all samples of an input, in 16 bytes each."""

    def __init__(self) -> None:
        self._digests = array("Q")
        # Most samples of an input have the same fields, so each combination has a number.
        self._numbers: dict[tuple[str, ...] | None, int] = {}
        self._number_of_sample = array("L")

    def add(self, digest: int, fields: tuple[str, ...] | None) -> None:
        """Add a sample by the hash of its key; ``fields`` is None for the rest of a damaged one."""
        self._digests.append(digest)
        self._number_of_sample.append(self._numbers.setdefault(fields, len(self._numbers)))

    def interleaved(self) -> list[int]:
        """Return the numbers of samples whose key occurs again with other fields only.

        One number is returned per key.

        A key that occurs again with the same fields is another sample.
        """
        if len(self._numbers) < 2:
            return []
        combinations = list(self._numbers)
        digests = np.frombuffer(self._digests, np.uint64)
        order = np.argsort(digests, kind="stable")
        sorted_digests = digests[order]
        first_by_key: dict[int, int] = {}
        for position in np.flatnonzero(sorted_digests[1:] == sorted_digests[:-1]).tolist():
            first, second = order[position : position + 2].tolist()
            first_fields = combinations[self._number_of_sample[first]]
            second_fields = combinations[self._number_of_sample[second]]
            if first_fields is None or second_fields is None:
                continue
            if set(first_fields).isdisjoint(second_fields):
                first_by_key.setdefault(self._digests[first], first)
        return list(first_by_key.values())


def refuse_interleaved(reports: Sequence[InputReport]) -> None:
    """Raise InterleavedMembers if members of one sample are not adjacent.

    They are looked for in one input and in two neighbouring inputs.
    """
    total = sum(report.interleaved for report in reports)
    example: InputReport | None = None
    key = ""
    for report in reports:
        if report.interleaved:
            example = report
            key = _key_at(report, report.first_interleaved)
            break
    with_samples = [report for report in reports if report.last[1]]
    for report, next_report in pairwise(with_samples):
        last_key, last_fields = report.last
        first_key, first_fields = next_report.first
        if last_key == first_key and set(last_fields).isdisjoint(first_fields):
            total += 1
            if example is None:
                example = report
                key = last_key
    if example is not None:
        subject = "1 sample has" if total == 1 else f"{total:,} samples have"
        raise InterleavedMembers(
            f"{subject} members that are not next to each other, such as {escape(key)} in {example.url}:"
            " resharding would part them"
        )


def _key_at(report: InputReport, number: int) -> str:
    """Return the key of a sample of an input, or "" if it cannot be read."""
    with suppress(SourceError), open_source(report.location) as source:
        keys = (sample.key for sample in Samples(source, contents=False))
        return next(islice(keys, number, None), "")
    return ""
