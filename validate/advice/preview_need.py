"""Which shards must be read again to predict a repair.

These are the shards whose evidence does not decide the outcome.
"""

from itertools import combinations, islice

from wdsflow.repair.field_contents import is_refused
from wdsflow.repair.repair_plan import RepairPlan
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import CAPTIONS
from wdsflow.scan.shapes import Shape
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .hidden_pairs import may_pair

# Tallies that a repair does not change. All others may change which members form a sample.
_KEPT = ("image.", "text.", "json.", "field.", "column.", "media.", "interleaved.")
_KEPT_NAMES = frozenset(
    {"tar.no-end-blocks", "tar.pax-overhead", "tar.huge-member", "tar.directory"}
)
# README.md and the like are not samples.
_README_EXTENSIONS = frozenset({"md", "txt", "rst", "html", "db", "ini"})
# With more shapes of samples, to compare all of them takes longer than to read the shard again.
_MOST_SHAPES = 50


def keeps_structure(shard: ShardEvidence) -> bool:
    """Return whether a repair without steps would write the same samples.

    They must have the same fields in the same order.
    """
    if shard.error or shard.stop.kind not in ("end", "eof") or shard.visible_runs or shard.all_runs:
        return False
    tallies = [name for name, tally in shard.tallies.items() if tally.count]
    if not all(name.startswith(_KEPT) or name in _KEPT_NAMES for name in tallies):
        return False
    if any("." in name for name in shard.fields):
        return False
    shapes = list(islice(shard.runs.shape_counts(), _MOST_SHAPES + 1))
    if len(shapes) > _MOST_SHAPES:
        return False
    kinds: set[frozenset[str]] = set()
    for run in shapes:
        fields = frozenset(part.suffix.lower() for part in run.shape)
        if fields <= _README_EXTENSIONS:
            return False
        kinds.add(fields)
    # A repair joins folders only if no two kinds of samples share a field.
    return all(one & other for one, other in combinations(kinds, 2))


def needs_contents(shard: ShardEvidence, plan: RepairPlan, *, is_read: bool) -> bool:
    """Return whether the repair of a shard depends on names or contents.

    The shard is one that keeps its structure.
    """
    if plan.pair_names and may_pair([shard]):
        return True
    if plan.name_images and any(_may_hold_unnamed_image(shape) for shape in shard.runs.shapes()):
        return True
    if plan.encoding and shard.encoding is not None:
        return True
    caption = plan.caption
    if caption is not None and len(caption.names) > 1 and caption.member in shard.fields:
        return True
    for old, new in plan.rename:
        if old not in shard.fields:
            continue
        # A packed field is unpacked; one of another kind was not looked at as what it becomes.
        changes_kind = kind_of(old) != kind_of(new) != "opaque"
        if old.endswith(".gz") or (is_read and changes_kind):
            return True
    bad = {old for old, _ in plan.rename_bad}
    for shape in shard.runs.shapes():
        if any(part.suffix in bad and is_refused(part) for part in shape):
            return True
    return False


def _may_hold_unnamed_image(shape: Shape) -> bool:
    """Return whether a sample without a known image field may have an image.

    Some other member may be that image.
    """
    names = {part.suffix.lower() for part in shape}
    return names.isdisjoint(IMAGE_FIELDS) and not names.issubset(CAPTIONS)
