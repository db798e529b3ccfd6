from collections import Counter
from collections.abc import Iterator

from wdsflow.readers.equal_keys import share_keys
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding
from ..kit.base import Context, Rule
from ..kit.unusual_names import is_wild

_ENOUGH = 8  # of 64: one in eight keys is shared


class SharedKeys(Rule):
    """Several shards use the same keys.

    What: keys are unique inside a shard but occur again in others, for example if numbering starts at 0 in every shard.
    The scan keeps the 64 smallest key hashes of each shard, and reports shards that share 8 of them, or all; the number
    in the message is a lower bound.

    Why it matters: readers that mark the end of a shard accept this. webdataset up to 0.2.88, which OpenCLIP pins,
    continues an open sample in the next shard: after a cut shard, an image of one sample can get the caption of another
    (W021). Tools that look samples up by key (embeddings, filter lists) confuse them. Energon takes no key twice: neither
    ``wdsflow index URL... --energon`` nor ``energon prepare`` indexes such a set. Equal keys may also mean that old and
    new shards are in one folder.

    In practice: shards made by independent jobs, LAION-400M's tails (see the FIXME in OpenCLIP's group_by_keys),
    webdataset#327.

    Fix: put the number of the shard into the key when packing, as img2dataset does: ``000420017`` for sample 17 of
    shard 42. Look for stale files first: ``ls -lt FOLDER``. For Energon,
    ``energon prepare --fix-duplicates --non-interactive --split-ratio 1,0,0 --skip-dataset-yaml FOLDER`` puts the name of
    its shard before each key, in the shards themselves, and ``wdsflow index URL... --energon`` adds what else is needed.
    """

    code = "W008"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        pairs = list(shared_sketches(context, "key_sketch"))
        if not pairs:
            return
        first, second = pairs[0]
        cut = all(_cut_short(one) and _cut_short(other) for one, other in pairs)
        also = f" (and {how_many(len(pairs) - 1, 'other shard')} with earlier ones)" if len(pairs) > 1 else ""
        hurt = tuple(
            reader.name
            for reader in context.readers
            if reader.keys_once and share_keys([shard for shard in context.evidence.shards if reader.opens(shard)])
        )
        if cut and not hurt:
            return  # W010 reports it
        yield Finding(
            code=self.code,
            severity="error" if hurt else self.severity,
            message=f"shares keys with {_name(first.url)}{also}: at least {how_many(len(pairs) + 1, 'shard')} "
            f"do not have keys of their own{f'; without an index, {context.ending(hurt)}' if hurt else ''}",
            shard=second.url,
            count=len(pairs),
            readers=hurt or context.names(),
        )


def shared_sketches(context: Context, sketch: str) -> Iterator[tuple[ShardEvidence, ShardEvidence]]:
    """Yield shards whose sketch overlaps with that of an earlier shard, each once, as (earlier, later)."""
    owner: dict[int, ShardEvidence] = {}
    for shard in context.evidence.shards:
        values: tuple[int, ...] = getattr(shard, sketch)
        owners = Counter(id(owner[value]) for value in values if value in owner)
        if owners:
            _, shared = owners.most_common(1)[0]
            earlier = next(owner[value] for value in values if value in owner and owners[id(owner[value])] == shared)
            fewest = min(len(values), len(getattr(earlier, sketch)))
            # A single equal hash of many may be chance: there are only 2^32.
            if shared >= max(2, fewest * _ENOUGH // 64) or shared == fewest == 1:
                yield earlier, shard
        for value in values:
            owner.setdefault(value, shard)


def _cut_short(shard: ShardEvidence) -> bool:
    """Return whether dots have cut most keys of a shard: they would be other keys without."""
    runs = list(shard.runs.counted())
    wild = sum(item.count for item in runs if all(is_wild(shard, part.suffix) for part in item.shape))
    return wild * 2 > sum(item.count for item in runs)


def _name(url: str) -> str:
    return escape(url.rpartition("/")[2])
