"""The evidence of shards as ``wdsflow repair`` without options would write them; nothing is written.

Most shards would stay as they are. Shards with separated members, odd names or damage are scanned again, with the order
and the names in which a repair would write their members.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from typing import NamedTuple

from wdsflow.readers.equal_keys import meetings
from wdsflow.repair.split_samples import Borders, borders
from wdsflow.scan.evidence import ShardEvidence, Stop
from wdsflow.scan.scan_options import ScanOptions

from .repaired_scan import NOT_TRIED, scan_repaired

Scan = Callable[..., list[ShardEvidence]]  # pool.scan_shards, with its engine

# Tallies that a repair does not change. All others may change which members form a sample.
_KEPT = ("image.", "text.", "json.", "field.", "column.")
_KEPT_TOO = frozenset({"tar.no-end-blocks", "tar.pax-overhead", "tar.huge-member", "tar.directory", "name.long"})
_PAPERS = frozenset({"md", "txt", "rst", "html", "db", "ini"})  # README.md and the like are not samples
_MOST_SHAPES = 50


class Repaired(NamedTuple):
    """The shards that a repair would write: one for each input that has a sample."""

    shards: list[ShardEvidence]
    known: bool  # False: some can only be read from front to back, and are unchanged


def repaired(shards: Sequence[ShardEvidence], options: ScanOptions, scan: Scan, *, afresh: bool = False) -> Repaired:
    """Return the evidence of the shards that a repair would write.

    Args:
        shards: evidence of the shards.
        options: options of the scan.
        scan: scans shards again, if they would change.
        afresh: scan the others again too, because the options differ from those of the first scan.
    """
    readable = [shard for shard in shards if shard.error in (None, "not-a-tar") and not shard.is_distrusted]
    urls = [shard.url for shard in readable]
    moved = borders(urls) if meetings(readable) else {}
    wild = [place for place, shard in enumerate(readable) if place in moved or not _stays(shard)]
    changes = [place for place in wild if readable[place].compression is None and not urls[place].startswith("pipe:")]
    ways = [partial(scan_repaired, moved=moved.get(place, Borders())) for place in changes]
    found = scan([urls[place] for place in changes], options, how=ways) if changes else []
    known = len(changes) == len(wild) and all(shard.error != NOT_TRIED for shard in found)
    stay = [place for place in range(len(readable)) if place not in changes] if afresh else []
    again = scan([urls[place] for place in stay], options) if stay else []
    written = dict(enumerate(readable))
    written |= {place: shard for place, shard in zip(changes, found, strict=True) if shard.error != NOT_TRIED}
    written |= dict(zip(stay, again, strict=True))
    whole = (
        replace(
            written[place],
            url=os.path.basename(urls[place]),  # all in one folder, whichever they are in now
            error=None,
            compression=None,
            stop=Stop(),
            by_arrow=None,
        )
        for place in range(len(readable))
    )
    return Repaired([shard for shard in whole if shard.runs.head is not None], known)


def _stays(shard: ShardEvidence) -> bool:
    """Return whether a repair would write the same samples, with the same fields in the same order."""
    if (
        shard.error
        or shard.stop.kind not in ("end", "eof")
        or shard.visible_runs is not None
        or shard.all_runs is not None
    ):
        return False
    if any(not (name.startswith(_KEPT) or name in _KEPT_TOO) for name, tally in shard.tallies.items() if tally.count):
        return False
    if any("." in name for name in shard.fields):
        return False
    shapes = list(islice(shard.runs.counted(), _MOST_SHAPES + 1))
    if len(shapes) > _MOST_SHAPES:
        return False
    # A repair joins folders only if no two kinds of samples share a field.
    fields = {frozenset(part.suffix.lower() for part in run.shape) for run in shapes}
    if any(one <= _PAPERS for one in fields):
        return False
    return all(one & other for one, other in combinations(fields, 2))
