"""The rule to which each lost sample belongs.

A sample belongs to exactly one rule, so that the numbers of findings add up to the losses.

A reader gives one reason for each sample that it drops. A field that does not decode names its rule
by the status of its contents. A missing field may have been lost by another fault, such as members
that are not adjacent: then it belongs to the rule about that fault.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from wdsflow.readers.base import RESERVED, Fate, Reader
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.runs import is_junk_run
from wdsflow.scan.shapes import Part, ShapeCount
from wdsflow.scan.statuses import (
    BIG,
    BIG_BAD,
    BLANK,
    BOMB,
    CUT,
    EMPTY,
    MARKUP,
    NO_CAPTION,
    NO_LIBRARY,
    NOT_IMAGE,
    NOT_UTF8,
)

from .base import Context
from .field_roles import ROLES, alternative, has_role
from .folded_shapes import fold_shape, without_dots
from .missing_fields import FieldNeeds, field_needs, may_be_cut

LossesByRule = Mapping[tuple[str, str], int]
"""By the url of a shard and the code of a rule: how many samples a reader loses."""

_IMAGES = {
    CUT: "I202",
    BOMB: "I203",
    MARKUP: "I210",
    BIG: "I212",
    EMPTY: "I216",
    NOT_IMAGE: "I217",
}
_CAPTIONS = {NOT_UTF8: "F109", EMPTY: "F112", BLANK: "F112", NO_CAPTION: "F108"}
# Rules on faults that split samples or end a shard, as far as a tally tells. The first that applies
# explains its losses.
_SPLITTING = (
    ("key.again", "W006"),
    ("name.mixed-prefix", "W030"),
    ("name.macosx", "W022"),
    ("name.appledouble", "W012"),
)
_ENDINGS = (
    ("tar.bad-header", "W002"),
    ("tar.second-archive", "W003"),
    ("tar.no-end-blocks", "W018"),
)
# Losses that are given back first where a reader made more pieces than there are samples.
_OF_PIECES = (
    "W006",
    "W012",
    "W022",
    "W030",
    "W029",
    "W010",
    "W007",
    "W009",
    "W021",
    "F103",
    "F102",
    "F101",
)


def losses_by_rule(context: Context, reader: Reader) -> LossesByRule:
    """Return the rule of each sample that a reader loses.

    Empty for a reader that ends with an exception.
    """
    return context.cached(
        ("losses by rule", id(reader)), lambda: _count_losses_by_rule(context, reader)
    )


def _count_losses_by_rule(context: Context, reader: Reader) -> LossesByRule:
    verdict = context.verdict_of(reader.name)
    if verdict is None or verdict.run is not None or verdict.outcome == "crashes":
        return {}
    needs: FieldNeeds | None = None
    for of_reader in field_needs(context):
        if of_reader.reader is reader:
            needs = of_reader
    lost: Counter[tuple[str, str]] = Counter()
    for shard in context.evidence.shards:
        for code, count in _losses_in_shard(context, reader, shard, needs).items():
            lost[shard.url, code] += count
    rest = verdict.samples - verdict.usable - lost.total()
    if rest > 0:
        _add_joined_samples(context, lost, rest)
    elif rest < 0:
        _subtract_pieces(lost, -rest)
    return +lost


def _losses_in_shard(
    context: Context, reader: Reader, shard: ShardEvidence, needs: FieldNeeds | None
) -> Counter[str]:
    """Return the losses in one shard, as if it were the only one."""
    bound = context.bound_reader(reader)
    lost: Counter[str] = Counter()
    if not bound.opens(shard):
        code = "W004" if shard.compression else _rule_for_ending(shard)
        lost[code] = shard.samples
        return lost
    samples = shard.samples
    usable = 0
    for run in bound.runs(shard).shape_counts():
        fates = context.fates(bound, run.shape)
        useful = sum(fate.kind == "usable" for fate in fates)
        usable += useful * run.count
        if is_junk_run(run.key, run.shape):
            samples += useful * run.count
            continue
        samples += (len(fates) - 1) * run.count
        for fate in fates:
            if fate.kind != "usable":
                code = _rule_for_fate(context, bound, shard, run, fate, needs, pieces=len(fates))
                lost[code] += run.count
    for shape, count in shard.resumed_runs.items():
        is_complete = any(fate.stage in ("decode", "batch") for fate in context.fates(bound, shape))
        samples += count * is_complete
    if shard.samples_after_stop:
        lost[_rule_for_ending(shard)] += shard.samples_after_stop
    rest = samples - usable - lost.total()
    if rest < 0:
        _subtract_pieces(lost, -rest)
    elif rest > 0:
        # Dots have merged samples into one.
        code = "W010" if shard.tally("name.dotted").count else _rule_for_ending(shard)
        lost[code] += rest
    return lost


def _rule_for_fate(
    context: Context,
    reader: Reader,
    shard: ShardEvidence,
    run: ShapeCount,
    fate: Fate,
    needs: FieldNeeds | None,
    *,
    pieces: int,
) -> str:
    """Return the rule for a sample that meets a fate."""
    if fate.reason == "marked-bad":
        return "F127"
    if fate.detail:
        for part in run.shape:
            if part.suffix.lower() == fate.detail.lower():
                return _rule_for_field(part, fate, shard)
    if pieces > 1:
        is_replaced = any(part.suffix.lower() in RESERVED for part in run.shape)
        return "F128" if is_replaced else "W007"
    return _rule_for_missing_field(context, reader, shard, run, needs)


def _rule_for_field(part: Part, fate: Fate, shard: ShardEvidence) -> str:
    """Return the rule for a field whose contents a reader does not take."""
    kind = kind_of(part.suffix)
    status = part.status
    if status == BIG_BAD:
        # Two faults: over the limit of one reader, and not decodable for the others.
        if fate.reason == "too-large":
            return "I212"
        is_cut = shard.tally("image.cut").count and not shard.tally("image.undecodable").count
        return "I202" if is_cut else "I201"
    if status == NO_LIBRARY:
        return "F122"
    if kind == "image" or status in (BIG, BOMB, CUT, MARKUP, NOT_IMAGE):
        return "F121" if kind == "gz" else _IMAGES.get(status, "I201")
    if kind == "json" and status != NO_CAPTION:
        return "F107"
    if kind in ("text", "json", "opaque"):
        return _CAPTIONS.get(status, "F121")
    return "F121"


def _rule_for_missing_field(
    context: Context,
    reader: Reader,
    shard: ShardEvidence,
    run: ShapeCount,
    needs: FieldNeeds | None,
) -> str:
    """Return the rule for a sample without its image or its caption."""
    last = reader.runs(shard).last
    is_last = last is not None and run.key == last.key and run.offset == last.offset
    if is_last and may_be_cut(shard):
        return _rule_for_ending(shard)
    for name, code in _SPLITTING:
        if shard.tally(name).count:
            return code
    lower = tuple(part._replace(suffix=part.suffix.lower()) for part in run.shape)
    if lower != run.shape and context.usable(reader, lower):
        return "W013"
    if needs is None:
        return "F102"
    shape = fold_shape(shard, run.shape)
    required = [role for role in ROLES if needs.names[role]]
    missing = [role for role in required if not has_role(context, reader, shape, role)]
    fixed = tuple(without_dots(shard, part) for part in shape)
    if fixed != shape and all(has_role(context, reader, fixed, role) for role in missing):
        return "W010"
    if any(role in needs.absent for role in missing):
        return "F101"
    if len(missing) == 1 and alternative(reader, shard, shape, missing[0]):
        return "F103"
    return "F102"


def _rule_for_ending(shard: ShardEvidence) -> str:
    """Return the rule on how a shard ends."""
    for name, code in _ENDINGS:
        if shard.tally(name).count:
            return code
    return "W020" if shard.error else "W001"


def _subtract_pieces(lost: "Counter[tuple[str, str]] | Counter[str]", count: int) -> None:
    """Count fewer pieces as samples: two halves of a sample are one lost sample.

    >>> lost = Counter({"W001": 1, "F101": 1, "W006": 2})
    >>> _subtract_pieces(lost, 3)
    >>> +lost
    Counter({'W001': 1})
    """

    def order(item: "tuple[str, str] | str") -> int:
        code = item if isinstance(item, str) else item[1]
        return _OF_PIECES.index(code) if code in _OF_PIECES else len(_OF_PIECES)

    for key in sorted(lost, key=order):
        less = min(count, lost[key])  # type: ignore[index]
        lost[key] -= less  # type: ignore[index]
        count -= less


def _add_joined_samples(context: Context, lost: "Counter[tuple[str, str]]", count: int) -> None:
    """Attribute samples of which another shard has the rest, or with which it joins them."""
    for shard in _shards_continued_elsewhere(context):
        lost[shard.url, "W021"] += 1
        count -= 1
        if not count:
            return
    lost[context.evidence.shards[0].url, "W021"] += count


def _shards_continued_elsewhere(context: Context) -> Iterator[ShardEvidence]:
    """Yield the shards whose last key is the first one of another shard."""
    heads = {
        shard.runs.head.key for shard in context.evidence.shards if shard.runs.head is not None
    }
    for shard in context.evidence.shards:
        if shard.runs.last is not None and shard.runs.last.key in heads:
            yield shard
