"""Samples at which code is most likely to fail: those that findings name, and those with rare values."""

from collections.abc import Iterator, Sequence

from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_options import ScanOptions

from .probe_samples import RareSample, SamplePlace, TinyTars, place_of, places_in

_EACH = 3  # samples of one kind, from as many shards
_RARE = 0.02  # a kind with more than this share of all samples is found by probes of any samples
_NO_CONTENTS = ("tar.", "name.")


def rare_samples(
    shards: Sequence[ShardEvidence], options: ScanOptions, tars: TinyTars, most: int
) -> Iterator[RareSample]:
    """Yield at most so many samples: those that findings are about, then those with rare values, the rarest first."""
    wanted = dict.fromkeys(_wanted(shards))
    known: dict[str, list[SamplePlace]] = {}
    by_url = {shard.url: shard for shard in shards}
    given: set[SamplePlace] = set()
    for url, offset in wanted:
        if len(given) >= most:
            return
        if url not in known:
            known[url] = places_in(url, allow_pipe=options.allow_pipe)
        place = place_of(known[url], offset)
        if place is None or place in given:
            continue
        given.add(place)
        path = tars.tar(place)
        head = None if path is None else scan_shard(path, options).runs.head
        if head is not None and by_url[url].error is None:
            yield RareSample(place, head.shape)


def _wanted(shards: Sequence[ShardEvidence]) -> Iterator[tuple[str, int]]:
    """Yield shards and offsets of members."""
    kinds: dict[str, list[tuple[str, Tally]]] = {}
    named: dict[str, list[tuple[str, Tally]]] = {}
    for shard in shards:
        for found, into in ((shard.tallies, named), (shard.varieties, kinds)):
            for name, tally in found.items():
                if tally.key is not None and tally.offset is not None and not name.startswith(_NO_CONTENTS):
                    into.setdefault(name, []).append((shard.url, tally))
    samples = sum(shard.samples for shard in shards)
    totals = {name: sum(tally.count for _, tally in some) for name, some in kinds.items()}
    rare = sorted(
        (name for name, total in totals.items() if total <= max(3, _RARE * samples)), key=lambda name: totals[name]
    )
    for some in (*named.values(), *(kinds[name] for name in rare)):
        for url, tally in some[:_EACH]:
            assert tally.offset is not None
            yield url, tally.offset
