"""Members that readers group wrongly: of one sample apart, or of several samples together."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from wdsflow.readers.base import Reader
from wdsflow.readers.shared_keys import shards_sharing_a_key
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.runs import count_merged_samples, is_junk_run
from wdsflow.scan.shapes import Part, Run, Shape
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from ..finding import Finding, Severity
from .kit.base import Context, Rule, TallyRule
from .kit.field_roles import fields_in
from .kit.folded_shapes import fold_shape, folded_shapes, is_wild, without_dots
from .kit.rule_loss import RuleLoss, crashes, valid
from .kit.sample_loss_rules import LossRule

# Hashes of keys that the scan keeps of a shard.
_SKETCH = 64
# Of these: one in eight keys is shared.
_ENOUGH = 8


class Interleaved(TallyRule):
    """The members of a sample are not next to each other.

    What: a key occurs again after other keys in the same shard, as in ``0.jpg 1.jpg 0.txt 1.txt``.

    Why it matters: readers walk a shard once and close a sample as soon as the key changes. Each
    part becomes a separate sample: an image without a caption, a caption without an image.
    OpenCLIP's filter silently drops both; if the whole set is like that, no sample is left and
    training hangs at epoch 0. webdataset and Ray Data yield the parts.

    In practice: tars made by ``tar cf shard.tar folder`` in the order of the directory, by
    ``find | tar -T -``, or by adding all images first and all captions after them (webdataset#407,
    #140, #11; ray#44068).

    Fix: ``wdsflow repair SHARD -o repaired`` regroups the members. To pack again:
    ``tar --sort=name --format=ustar -cf SHARD -C FOLDER .``
    """

    code = "W006"
    severity = "error"
    # macOS twins between the members split them too.
    requires = ("W012",)
    tallies = ("key.again",)
    counts_samples = True
    says = "{n:key comes|keys come} back after other keys{first}: readers split the samples"


class DuplicateMember(LossRule):
    """A sample has two members with the same field name.

    What: ``a.jpg a.txt a.jpg``, or ``a.JPG`` and ``a.jpg``: field names are compared in lower case.

    Why it matters: webdataset raises "duplicate file name in tar file"; without a handler the run
    ends, with one the second member is dropped. OpenCLIP begins a new sample at the second member.
    This sample lacks the other field, and is silently dropped with all members that follow it.

    In practice: ``tar -r`` or ``tar -A`` used to update a shard, keys that are not unique inside a
    shard, a writer that was restarted (webdataset#157, #205, #286).

    Fix: ``wdsflow repair SHARD -o repaired`` keeps the first member of each name. If the second
    members are other samples, give them unique keys when packing.
    """

    code = "W007"
    # a.v1.jpg and a.v2.jpg share the key a.
    requires = ("W010",)
    tallies = ("key.duplicate-field",)

    def loss(self, context: Context, reader: Reader, shard: ShardEvidence) -> RuleLoss:
        samples = 0
        crash = False
        reader = context.bound_reader(reader)
        for item in folded_shapes(context, reader, shard):
            single = _single(item.shape)
            if single == item.shape:
                continue
            more = _dropped(context, reader, item.shape) - _dropped(context, reader, single)
            samples += max(more, 0) * item.count
            if crashes(context, reader, item.shape) and not crashes(context, reader, single):
                crash = True
        return RuleLoss(samples, crash)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'sample has', 'samples have')} a field name twice{_twice(shard)}"


def _dropped(context: Context, reader: Reader, shape: Shape) -> int:
    """Return how many samples a reader drops of one run."""
    return sum(fate.kind == "dropped" for fate in context.fates(reader, shape))


def _single(shape: Shape) -> Shape:
    """Return a shape without the second members of a name."""
    # Two members of one name may be the same part: parts are values.
    first: dict[str, Part] = {}
    for part in shape:
        first.setdefault(part.suffix.lower(), part)
    return tuple(first.values())


def _twice(shard: ShardEvidence) -> str:
    """Return an example of a field that a sample has twice, in brackets."""
    for item in shard.runs.shape_counts():
        names = Counter(part.suffix.lower() for part in item.shape)
        double = [name for name, count in names.items() if count > 1]
        if double:
            return f" ({double[0]})"
    return ""


class SharedKeys(Rule):
    """Several shards use the same keys.

    What: keys are unique inside a shard but occur again in others, for example if numbering starts
    at 0 in every shard. The scan keeps the 64 smallest key hashes of each shard, and reports shards
    that share 8 of them, or all; the number in the message is a lower bound.

    Why it matters: readers that mark the end of a shard accept this. webdataset up to 0.2.88, which
    OpenCLIP pins, continues an open sample in the next shard: after a cut shard, an image of one
    sample can get the caption of another (W021). Tools that look samples up by key (embeddings,
    filter lists) confuse them. Energon takes no key twice: neither
    ``wdsflow index URL... --energon`` nor ``energon prepare`` indexes such a set. Equal keys may
    also mean that old and new shards are in one folder.

    In practice: shards made by independent jobs, LAION-400M's tails (see the FIXME in OpenCLIP's
    group_by_keys), webdataset#327.

    Fix: put the number of the shard into the key when packing, as img2dataset does: ``000420017``
    for sample 17 of shard 42. Look for stale files first: ``ls -lt FOLDER``. For Energon, ``energon
    prepare --fix-duplicates --non-interactive --split-ratio 1,0,0 --skip-dataset-yaml FOLDER`` puts
    the name of its shard before each key, in the shards themselves, and
    ``wdsflow index URL... --energon`` adds what else is needed.
    """

    code = "W008"

    def check(self, context: Context) -> Iterator[Finding]:
        pairs = list(shared_sketches(context, "key_sketch"))
        ending = []
        for reader in context.readers:
            if not reader.keys_once:
                continue
            opened = [shard for shard in context.evidence.shards if reader.opens(shard)]
            sharing = shards_sharing_a_key(opened)
            if sharing is not None:
                ending.append(reader.name)
                # One key in common is enough for these readers.
                pairs = pairs or [sharing]
        if not pairs:
            return
        first, second = pairs[0]
        if not ending and all(_cut_short(one) and _cut_short(other) for one, other in pairs):
            # W010 reports it.
            return
        others = ""
        if len(pairs) > 1:
            others = f" (and {how_many(len(pairs) - 1, 'other shard')} with earlier ones)"
        message = f"shares keys with {_name(first.url)}{others}: at least {how_many(len(pairs) + 1, 'shard')} do not have keys of their own"
        if ending:
            message += f"; without an index, {context.exception_text(ending)}"
        severity = "error" if ending else self.severity
        yield self.finding(
            message, ending or context.reader_names(), second, count=len(pairs), severity=severity
        )


def shared_sketches(context: Context, sketch: str) -> Iterator[tuple[ShardEvidence, ShardEvidence]]:
    """Yield pairs of shards with overlapping sketches, as (earlier, later).

    Each later shard is in one pair.
    """
    owner: dict[int, ShardEvidence] = {}
    for shard in context.evidence.shards:
        values: tuple[int, ...] = getattr(shard, sketch)
        owners = Counter(id(owner[value]) for value in values if value in owner)
        if owners:
            _, shared = owners.most_common(1)[0]
            candidates = [owner[value] for value in values if value in owner]
            earlier = next(other for other in candidates if owners[id(other)] == shared)
            fewest = min(len(values), len(getattr(earlier, sketch)))
            # A single equal hash of many may be a collision: there are only 2^32.
            if shared >= max(2, fewest * _ENOUGH // _SKETCH) or shared == fewest == 1:
                yield earlier, shard
        for value in values:
            owner.setdefault(value, shard)


def _cut_short(shard: ShardEvidence) -> bool:
    """Return whether dots have cut most keys of a shard.

    Such keys may be equal only because they were cut.
    """
    samples = 0
    cut = 0
    for item in shard.runs.shape_counts():
        samples += item.count
        if all(is_wild(shard, part.suffix) for part in item.shape):
            cut += item.count
    return cut * 2 > samples


def _name(url: str) -> str:
    return escape(url.rpartition("/")[2])


class SplitSample(Rule):
    """A sample continues in the next shard.

    What: the last key of one shard is the first key of the next one, with different fields: one
    sample was split when the tars were written.

    Why it matters: readers shuffle shards and give them to different workers, so the two parts
    hardly ever meet. webdataset 1.x marks the end of each shard and makes two incomplete samples
    even in order. OpenCLIP silently drops each part for its missing field: one sample is lost
    between each two shards.

    In practice: tars split by size (``split``, ``tar --multi-volume``), writers that start a new
    shard after any member instead of after a sample.

    Fix: ``wdsflow repair URL... -o repaired`` over all shards at once joins the two parts. Or pack
    with webdataset's ShardWriter, which never splits a sample.
    """

    code = "W009"

    def check(self, context: Context) -> Iterator[Finding]:
        splits: list[tuple[ShardEvidence, ShardEvidence, Run]] = []
        for shard, following in pairwise(context.evidence.shards):
            tail = shard.runs.last
            head = following.runs.head
            if tail is None or head is None or tail.key != head.key:
                continue
            if not is_junk_run(tail.key, tail.shape) and _is_one_sample(
                shard, tail, following, head
            ):
                splits.append((shard, following, tail))
        severity: Severity = "warning"
        if len(splits) > context.max_loss * context.evidence.samples:
            severity = "error"
        for shard, following, tail in splits:
            message = f"its last sample continues in {_name(following.url)}: readers shuffle shards, so the two parts do not meet"
            yield self.finding(message, context.reader_names(), shard, tail, severity=severity)


def _is_one_sample(shard: ShardEvidence, tail: Run, following: ShardEvidence, head: Run) -> bool:
    """Return whether two runs of one key are one sample split over two shards.

    One run is at the end of a shard, the other at the start of the next.
    """
    if not fields_in(tail.shape).isdisjoint(fields_in(head.shape)):
        return False
    # Not the parts of several samples whose keys a dot cuts to the same (W010).
    before = _cut_off(shard, tail)
    after = _cut_off(following, head)
    return not before or not after or not before.isdisjoint(after)


def _cut_off(shard: ShardEvidence, run: Run) -> set[str]:
    """Return the parts that dots have cut off the keys of a run; empty if it has a usual field."""
    suffixes = [part.suffix for part in run.shape]
    if not all(is_wild(shard, suffix) for suffix in suffixes):
        return set()
    return {suffix.rpartition(".")[0] for suffix in suffixes}


class DottedKey(LossRule):
    """Dots inside base names cut keys short.

    What: the key ends at the first dot of the last path component, and the field is the rest.
    ``photo 2.0 (x).jpg`` is key ``photo 2`` with the field ``0 (x).jpg``, which no reader needs.

    Why it matters: OpenCLIP needs a field that is exactly ``jpg``, and silently drops the sample.
    Names that share the part before the first dot merge: ``img.v1.jpg img.v2.jpg`` is one sample
    ``img`` with two odd fields. If all names have such dots, no sample is left and training hangs.

    In practice: "didn't find ['mp3'] in ['__key__', '__url__', '0 (clean version).mp3']"
    (webdataset#237, #288); file names with versions, dates, host names or "e.g." in them
    (datasets#6880, #7144).

    Fix: ``wdsflow repair SHARD -o repaired`` replaces the dots in keys with underscores. When
    packing: ``key = name.replace(".", "_")``
    """

    code = "W010"
    # The field of folder/._a.jpg is _a.jpg.
    requires = ("W012", "W022")
    tallies = ("name.dotted",)

    def loss(self, context: Context, reader: Reader, shard: ShardEvidence) -> RuleLoss:
        """Count each run, and the samples that were merged into it."""
        lost = 0
        crash = False
        for item in reader.runs(shard).shape_counts():
            shape = fold_shape(shard, item.shape)
            fixed = tuple(without_dots(shard, part) for part in shape)
            if context.usable(reader, valid(fixed)) > context.usable(reader, valid(shape)):
                crash = crash or crashes(context, reader, valid(shape))
                lost += item.count * (1 + count_merged_samples(item.shape, partial(is_wild, shard)))
        if not lost:
            # Image and caption of one sample may be in two runs; together they would be one sample.
            lost = _in_several_runs(context, reader, shard)
        return RuleLoss(lost, crash)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        example = f', such as "{detail}"' if detail else ""
        return f"{how_many(count, 'member has', 'members have')} a dot inside the base name and therefore an odd field name{example}"


def _in_several_runs(context: Context, reader: Reader, shard: ShardEvidence) -> int:
    """Return how many dropped runs would be usable if dotted runs were one sample."""
    dotted = [
        item for item in folded_shapes(context, reader, shard) if _is_dotted(shard, item.shape)
    ]
    if any(context.usable(reader, item.shape) for item in dotted):
        return 0
    # In their order, without repeats.
    together: dict[Part, None] = {}
    for item in dotted:
        together |= {without_dots(shard, part): None for part in item.shape}
    if not context.usable(reader, valid(tuple(together))):
        return 0
    return sum(item.count for item in dotted)


def _is_dotted(shard: ShardEvidence, shape: Shape) -> bool:
    return any(without_dots(shard, part) is not part for part in shape)
