"""Texts on the progress of a feed: speed, losses, damage, and the table at the end of an epoch."""

from collections.abc import Iterator

from wdsflow.memory.sizes import format_size
from wdsflow.shards.cache.figures import CacheFigures
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .loss_tally import NO_TAR, REPEATED, UNREADABLE, Damage, LossTally
from .progress_facts import Facts

# Damaged shards that a table lists.
_MOST = 20


def speed_text(facts: Facts, world_size: int) -> str:
    """Return the samples per second, and how long training waited for them."""
    speed = f"{facts.rate:,.0f} samples/s"
    # Every rank takes the same number of steps.
    if world_size > 1:
        speed += f" on this rank (about {facts.rate * world_size:,.0f} on all {world_size})"
    return f"{speed}, training waited {100 * facts.share:.0f} % of the time"


def loss_text(tally: LossTally) -> str:
    """Return how many samples were lost, by reason; then the damaged shards."""
    if not tally.lost:
        return f"lost none of {tally.seen:,}{_damaged(tally)}"
    counts = ", ".join(f"{item.first.reason} {item.count:,}" for item in tally.reasons)
    return f"lost {tally.lost:,} of {tally.seen:,} ({counts}){_damaged(tally)}"


def _damaged(tally: LossTally) -> str:
    """Return the first damaged shard, and how many more there are; "" without damage."""
    shards = list(dict.fromkeys(item.shard for item in tally.damage.values()))
    if not shards:
        return ""
    text = f", damaged: {escape(shards[0])}"
    if len(shards) > 1:
        text += f" and {len(shards) - 1:,} more"
    return text


def epoch_table(facts: Facts, rank: int, world_size: int) -> Iterator[str]:
    """Yield the lines of the table at the end of an epoch."""
    rank_text = "" if world_size == 1 else f" (rank {rank} of {world_size})"
    given = f"{facts.batch:,} of {facts.num_batches:,} batches, {how_many(facts.samples, 'sample')}"
    speed = speed_text(facts, world_size)
    yield f"feed: epoch {facts.epoch} done{rank_text}: {given}, {speed}"
    yield from _count_lines(facts.tally)
    if facts.cache is not None:
        yield f"  {cache_line(facts.cache)}"
    yield from _damage_lines(list(facts.tally.damage.values()))


def _count_lines(tally: LossTally) -> Iterator[str]:
    """Yield the counts of samples with their shares.

    A line on a reason for losses also has the first sample lost for it.
    """
    rows = [("seen", tally.seen, ""), ("kept", tally.kept, ""), ("lost", tally.lost, "")]
    for item in tally.reasons:
        first = item.first
        example = f"first: {escape(first.key, 60)} in {escape(first.shard)}"
        if first.detail:
            example += f" ({escape(first.detail, 60)})"
        rows.append((f"  {first.stage}: {first.reason}", item.count, example))
    for note, count in tally.noted.most_common():
        rows.append((f"noted: {note}", count, ""))
    width = max(len(name) for name, _, _ in rows)
    for name, count, example in rows:
        # Repeated samples do not count as seen.
        share = "" if name == f"noted: {REPEATED}" else _share(count, tally.seen)
        yield f"  {name:<{width}} {count:>12,} {share:>8}  {example}".rstrip()


def _share(count: int, seen: int) -> str:
    share = 100 * count / seen if seen else 0.0
    return f"{share:.3g} %" if 0 < share < 1 else f"{share:.1f} %"


def _damage_lines(damage: list[Damage]) -> Iterator[str]:
    """Yield a line for each of the first damaged shards, and how many more there are."""
    for item in damage[:_MOST]:
        kind = f"{item.what}, "
        if item.what in {NO_TAR, UNREADABLE}:
            # The detail contains it.
            kind = ""
        yield f"  damaged: {escape(item.shard, 200)}: {kind}{escape(item.detail)}"
    if len(damage) > _MOST:
        yield f"  damaged: {len(damage) - _MOST:,} more"


def cache_line(cache: CacheFigures) -> str:
    """Return what a cache did."""
    return (
        f"cache: {how_many(cache.hits, 'shard')} read from it ({format_size(cache.saved)}), "
        f"{cache.stored:,} added, {cache.passed:,} not kept, "
        f"{format_size(cache.downloaded)} downloaded, "
        f"{format_size(cache.size)} of {format_size(cache.limit)} used"
    )
