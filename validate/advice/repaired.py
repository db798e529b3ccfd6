"""The evidence of shards as ``wdsflow repair`` without options would write them, without anything being written.

Most shards would stay as they are. Those in which members lie apart, names are odd or something is damaged are looked at
once more, in the order and under the names in which a repair would write their members.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from typing import NamedTuple

from wdsflow.repair.preview import Borders, borders
from wdsflow.scan.evidence import ShardEvidence, Stop
from wdsflow.scan.scan_options import ScanOptions
from wdsflow.scan.shapes import runs_of

from .repaired_scan import NOT_TRIED, scan_repaired

Scan = Callable[..., list[ShardEvidence]]  # pool.scan_shards, with who scans

# What a repair leaves as it is. Anything else that was counted may change which members make a sample.
_KEPT = ("image.", "text.", "json.", "field.", "column.")
_KEPT_TOO = frozenset({"tar.no-end-blocks", "tar.pax-overhead", "tar.huge-member", "tar.directory"})
_PAPERS = frozenset({"md", "txt", "rst", "html", "db", "ini"})  # README.md and the like become no samples
_MOST_SHAPES = 50


class Repaired(NamedTuple):
    """The shards that a repair would write: one for each that would hold a sample."""

    shards: list[ShardEvidence]
    known: bool  # False: some can be read from front to back only, and are as they are


def repaired(shards: Sequence[ShardEvidence], options: ScanOptions, scan: Scan, *, afresh: bool = False) -> Repaired:
    """Return the evidence of the shards that a repair would write.

    Args:
        shards: what is there.
        options: those of the scan that found it.
        scan: looks at shards once more, where they would change.
        afresh: look at the others once more, too, because the options differ from those of the first scan.
    """
    readable = [shard for shard in shards if shard.error in (None, "not-a-tar")]  # which may hold members behind damage
    urls = [shard.url for shard in readable]
    moved = borders(urls) if meet(readable) else {}
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
        replace(written[place], error=None, compression=None, stop=Stop(), by_arrow=None)
        for place in range(len(readable))
    )
    return Repaired([shard for shard in whole if shard.runs.head is not None], known)


def meet(shards: Sequence[ShardEvidence]) -> bool:
    """Tell whether a shard ends with the key with which another one begins; readers shuffle shards."""
    heads = [(number, shard.runs.head.key) for number, shard in enumerate(shards) if shard.runs.head is not None]
    tails: dict[str, set[int]] = {}
    for number, shard in enumerate(shards):
        last = shard.runs.tail or shard.runs.head
        if last is not None:
            tails.setdefault(last.key, set()).add(number)
    return any(tails.get(key, set()) - {number} for number, key in heads)


def _stays(shard: ShardEvidence) -> bool:
    """Tell whether a repair would write the same samples, with the same fields in the same order."""
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
    shapes = list(islice(runs_of(shard), _MOST_SHAPES + 1))
    if len(shapes) > _MOST_SHAPES:
        return False
    # Folders are joined where they have no field in common: not so if any two kinds of samples share one.
    fields = {frozenset(part.suffix.lower() for part in run.shape) for run in shapes}
    if any(one <= _PAPERS for one in fields):
        return False
    return all(one & other for one, other in combinations(fields, 2))
