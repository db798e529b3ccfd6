"""A table of shards by defect, for a page.

It shows how often each defect occurs in a shard. A deeper colour means more.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.tallies import TALLIES
from wdsflow.text.words import how_many, short_name, size

if TYPE_CHECKING:
    from .report import Report

# Shards and defects that a page shows, those with most first.
_MOST_ROWS, _MOST_COLUMNS = 40, 12


def defect_table(report: "Report") -> dict[str, object] | None:
    """Return the template variables of the table; None if no shard has a defect.

    Each cell is a count, and how deep its colour is, 0 to 1.
    """
    counts = _counts_by_shard(report)
    totals: Counter[str] = Counter()
    for defects in counts.values():
        totals += defects
    if not totals:
        return None
    names = [name for name, _ in totals.most_common(_MOST_COLUMNS)]
    most = max(max(defects.values()) for defects in counts.values())
    sizes: dict[str, int] = {shard.url: shard.size or 0 for shard in report.evidence.shards}
    largest = max(sizes.values(), default=0) or 1
    worst_first = sorted(counts, key=lambda url: (-counts[url].total(), url))
    rows = []
    for url in worst_first[:_MOST_ROWS]:
        cells = []
        for name in names:
            count = counts[url][name]
            # A logarithm: one defect is visible next to thousands.
            cells.append((count, math.log1p(count) / math.log1p(most)))
        shard_size = sizes.get(url, 0)
        rows.append(
            {
                "name": short_name(url),
                "size": size(shard_size),
                "share": shard_size / largest,
                "cells": cells,
            }
        )
    hidden = len(worst_first) - _MOST_ROWS
    return {
        "names": names,
        "rows": rows,
        "more": how_many(hidden, "more shard") if hidden > 0 else "",
    }


def _counts_by_shard(report: "Report") -> dict[str, Counter[str]]:
    """Return how often each defect occurs in the shards that have any."""
    counts: dict[str, Counter[str]] = {}
    for shard in report.evidence.shards:
        defects = _defects_of(shard)
        if defects:
            counts[shard.url] = defects
    for verdict in report.verdicts:
        for url in verdict.barren:
            counts.setdefault(url, Counter())[f"no sample usable: {verdict.title}"] += 1
    return counts


def _defects_of(shard: ShardEvidence) -> Counter[str]:
    """Return how often each possible defect was seen in a shard, by its description."""
    defects: Counter[str] = Counter()
    for name, tally in shard.tallies.items():
        if tally.count:
            defects[TALLIES[name]] = tally.count
    if shard.samples_after_stop:
        defects["samples after damage at which readers stop"] = shard.samples_after_stop
    return defects
