"""The evidence of the shards that a repair would write, and the verdicts on them; nothing is written.

Most shards keep their structure, and most steps of a plan change names only: their evidence is
computed from that of the scan. A shard is read again, as a preview, only if its outcome depends on
names or contents that the evidence does not hold.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice
from typing import NamedTuple

from wdsflow.readers.base import Reader
from wdsflow.readers.shared_keys import continued_shards
from wdsflow.repair.borders import UNMOVED, Borders, borders
from wdsflow.repair.field_contents import is_refused
from wdsflow.repair.pairing import CAPTIONS_ALONE
from wdsflow.repair.repair_plan import RepairPlan
from wdsflow.scan.content.other import kind_of
from wdsflow.scan.evidence import BLANK, EMPTY, Evidence, Runs, ScanOptions, Shape, ShardEvidence
from wdsflow.scan.naming import CAPTIONS, IMAGES, is_side_image
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.tar.members import Stop

from ..rules.kit.shape_edits import CAPTION, ShapeEdits, changed, shapes_of
from ..verdicts.judge import judge
from ..verdicts.verdict import Verdict
from .preview_scan import NOT_TRIED, scan_preview

# scan_shards, with its engine
Scan = Callable[..., list[ShardEvidence]]

# Tallies that a repair does not change. All others may change which members form a sample.
_KEPT = ("image.", "text.", "json.", "field.", "column.", "media.", "interleaved.")
_KEPT_NAMES = frozenset(
    {"tar.no-end-blocks", "tar.pax-overhead", "tar.huge-member", "tar.directory"}
)
# README.md and the like are not samples.
_README_EXTENSIONS = frozenset({"md", "txt", "rst", "html", "db", "ini"})
# With more shapes of samples, to compare all of them takes longer than to read the shard again.
_MOST_SHAPES = 50
# Bytes of shards that are all used to compare plans, and of more shards, how many of a kind.
_SMALL_SET = 64 << 20
_OF_A_KIND = 2


class PreviewKey(NamedTuple):
    """All that the evidence of a shard as a plan would write it depends on."""

    url: Shard
    moved: Borders
    plan: RepairPlan


@dataclass(frozen=True)
class RepairedSet:
    """The shards that a repair would write.

    Attributes:
        shards: their evidence; shards without a sample are left out.
        is_known: whether all of them could be predicted.
    """

    shards: list[ShardEvidence]
    is_known: bool

    @property
    def samples(self) -> int:
        """How many samples would be written."""
        return sum(shard.runs.count for shard in self.shards)


class RepairForecast:
    """Predicts repairs of one set of shards, each plan once.

    Args:
        evidence: of the shards as they are.
        readers: whose verdicts are requested.
        options: of the scan.
        scan: scans shards; called only if previews are needed.
        is_draft: see ``draft``.
        previews: of the shards, which another forecast with these options has read; changed.
    """

    def __init__(
        self,
        evidence: Evidence,
        readers: Sequence[Reader],
        options: ScanOptions,
        scan: Scan,
        *,
        is_draft: bool = False,
        previews: dict[PreviewKey, ShardEvidence] | None = None,
    ) -> None:
        self.evidence = evidence
        self._is_draft = is_draft
        # Of a draft, the shards that some plan has a preview for: previews do not decode what the
        # scan did, so that plans can be compared only if all or none of them have one.
        self._compared: set[int] = set()
        self.readers = readers
        self._options = options
        self._scan = scan
        # Others cannot be read by a repair.
        self._shards = [
            shard
            for shard in evidence.shards
            if shard.error in (None, "not-a-tar") and not shard.is_distrusted
        ]
        urls = [shard.url for shard in self._shards]
        self._moved = borders(urls) if continued_shards(self._shards) else {}
        # Indices of the shards whose structure a repair changes even without steps.
        self._restructured = set(self._moved)
        for index, shard in enumerate(self._shards):
            if not keeps_structure(shard):
                self._restructured.add(index)
        self._previews = {} if previews is None else previews
        self._repaired: dict[RepairPlan, RepairedSet] = {}
        self._verdicts: dict[RepairPlan, tuple[Verdict, ...]] = {}

    def draft(self) -> "RepairForecast":
        """Return a forecast that is good enough to compare plans, and cheap.

        Images are not decoded again. Of many shards with the same traits, two are enough.
        """
        options = self._options
        if options.level == "full":
            options = replace(options, level="headers")
        shards = _typical(self.evidence.shards)
        if options == self._options and len(shards) == len(self.evidence.shards):
            return self
        evidence = replace(self.evidence, shards=shards)
        # What both read in the same way is read once.
        previews = self._previews if options == self._options else None
        return RepairForecast(
            evidence, self.readers, options, self._scan, is_draft=True, previews=previews
        )

    def alone(self, reader: Reader) -> "RepairForecast":
        """Return a forecast of the same shards for one of the readers."""
        return RepairForecast(
            self.evidence, [reader], self._options, self._scan, previews=self._previews
        )

    def repaired(self, plan: RepairPlan) -> RepairedSet:
        """Return the shards that a repair by this plan would write."""
        if plan not in self._repaired:
            self._repaired[plan] = self._predict(plan)
        return self._repaired[plan]

    def verdicts(self, plan: RepairPlan) -> tuple[Verdict, ...]:
        """Return the verdict of each reader on these shards."""
        if plan not in self._verdicts:
            evidence = Evidence(self.evidence.level, self.repaired(plan).shards)
            self._verdicts[plan] = tuple(judge(evidence, reader) for reader in self.readers)
        return self._verdicts[plan]

    def empty_captions(self, plan: RepairPlan | None = None) -> int:
        """Return how many captions the repaired shards have that are empty; 0 if no reader takes captions.

        Without a plan, that of the shards as they are.
        """
        if not any(reader.pairs_with == "caption" for reader in self.readers):
            return 0
        shards = self.evidence.shards if plan is None else self.repaired(plan).shards
        return sum(map(empty_captions, shards))

    def _predict(self, plan: RepairPlan) -> RepairedSet:
        if plan.drop_bad and not any(reader.same_fields for reader in self.readers):
            # What is left out depends on what the evidence says of each sample.
            lossless = self.repaired(replace(plan, drop_bad=False))
            return RepairedSet(
                changed(lossless.shards, ShapeEdits(drop_bad=True)), lossless.is_known
            )
        indexes = range(len(self._shards))
        previewed = {index for index in indexes if self._needs_preview(index, plan)}
        if self._is_draft and not self._compared.issuperset(previewed):
            self._compared.update(previewed)
            self._repaired.clear()
            self._verdicts.clear()
        self._preview(sorted(previewed), plan)
        edits = ShapeEdits.of_plan(plan)
        shards: list[ShardEvidence] = []
        is_known = True
        for index, shard in enumerate(self._shards):
            repaired = self._previews.get(self._preview_key(index, plan))
            if repaired is None:
                is_known = is_known and index not in previewed
                repaired = _edited(shard, edits)
            elif repaired.error == NOT_TRIED:
                is_known = False
                repaired = shard
            if repaired.runs.head is not None:
                shards.append(_as_written(repaired))
        return RepairedSet(shards, is_known)

    def _preview(self, indexes: Iterable[int], plan: RepairPlan) -> None:
        missing = [
            index for index in indexes if self._preview_key(index, plan) not in self._previews
        ]
        # A pipe can be read once, and was.
        new = [index for index in missing if not self._shards[index].url.is_pipe]
        if not new:
            return
        scans = [
            partial(scan_preview, moved=self._moved.get(index, UNMOVED), plan=plan) for index in new
        ]
        scanned = self._scan([self._shards[index].url for index in new], self._options, how=scans)
        for index, shard in zip(new, scanned, strict=True):
            self._previews[self._preview_key(index, plan)] = shard

    def _preview_key(self, index: int, plan: RepairPlan) -> PreviewKey:
        return PreviewKey(self._shards[index].url, self._moved.get(index, UNMOVED), plan)

    def _needs_preview(self, index: int, plan: RepairPlan) -> bool:
        if index in self._restructured or index in self._compared:
            return True
        # Such readers look at the first samples in their
        # order, which an edit of evidence does not keep.
        if index == 0 and plan.steps() and any(reader.same_fields for reader in self.readers):
            return True
        return _needs_contents(self._shards[index], plan, is_read=self._options.level != "names")


def empty_captions(shard: ShardEvidence) -> int:
    """Return how many samples of a shard have an image, and a caption without text: readers train on nothing."""
    return sum(run.count for run in shard.runs.counted() if _has_empty_caption(run.shape))


def _has_empty_caption(shape: Shape) -> bool:
    status = {part.suffix: part.status for part in shape}
    return status.get(CAPTION) in (EMPTY, BLANK) and not status.keys().isdisjoint(IMAGE_FIELDS)


def _typical(shards: Sequence[ShardEvidence]) -> list[ShardEvidence]:
    """Return two shards of each kind, in order; all of them if they are small."""
    sizes = [shard.size for shard in shards]
    if None not in sizes and sum(size or 0 for size in sizes) <= _SMALL_SET:
        return list(shards)
    kinds: Counter[object] = Counter()
    typical: list[ShardEvidence] = []
    for shard in shards:
        fields = frozenset(name for name in shard.fields if "." not in name)
        traits = frozenset(name for name, tally in shard.tallies.items() if tally.count)
        kind = fields, traits, shard.compression, shard.error, shard.encoding is None
        kinds[kind] += 1
        if kinds[kind] <= _OF_A_KIND:
            typical.append(shard)
    return typical


def _needs_contents(shard: ShardEvidence, plan: RepairPlan, *, is_read: bool) -> bool:
    """Return whether the outcome of a shard that keeps its structure depends on its names or contents."""
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


def _edited(shard: ShardEvidence, edits: ShapeEdits) -> ShardEvidence:
    """Return the evidence of a shard after edits that need no more than its shapes."""
    if not _changes_any(shard, edits):
        # The order of the samples stays known.
        return shard
    edited = changed([shard], edits, edits.caption)
    return edited[0] if edited else replace(shard, runs=Runs())


def _changes_any(shard: ShardEvidence, edits: ShapeEdits) -> bool:
    """Return whether edits change a sample of a shard."""
    for shape in shard.runs.shapes():
        if edits(shape, has_caption=True) != shape:
            return True
        if edits(shape, has_caption=False) != shape:
            return True
    return False


def _as_written(shard: ShardEvidence) -> ShardEvidence:
    """Return the evidence of a repaired shard under its new name; all are in one folder."""
    url = Shard.file(os.path.basename(shard.url))
    return replace(shard, url=url, error=None, compression=None, stop=Stop(), by_arrow=None)


def keeps_structure(shard: ShardEvidence) -> bool:
    """Return whether a repair without steps would write the same samples, with the same fields in the same order."""
    if shard.error or shard.stop.kind not in ("end", "eof") or shard.visible_runs or shard.all_runs:
        return False
    tallies = [name for name, tally in shard.tallies.items() if tally.count]
    if not all(name.startswith(_KEPT) or name in _KEPT_NAMES for name in tallies):
        return False
    if any("." in name for name in shard.fields):
        return False
    shapes = list(islice(shard.runs.counted(), _MOST_SHAPES + 1))
    # A repair joins folders only if no two kinds of samples share a field.
    fields = {frozenset(part.suffix.lower() for part in run.shape) for run in shapes}
    if len(shapes) > _MOST_SHAPES or any(one <= _README_EXTENSIONS for one in fields):
        return False
    return all(one & other for one, other in combinations(fields, 2))


def may_pair(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether there are images and texts without a partner, or names that hide a pair."""
    shapes = shapes_of(shards)
    if any(_hides_pair(part.suffix) for shape in shapes for part in shape):
        return True
    has_image = has_text = False
    for shape in shapes:
        image, text = _has(shape, IMAGES), _has(shape, CAPTIONS)
        # json or a label next to an image may be no caption.
        has_image = has_image or (image and not _has(shape, CAPTIONS_ALONE))
        has_text = has_text or (text and not image)
    return has_image and has_text


def may_lack_image_name(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether there are texts without an image, and members whose names do not say what they are."""
    shapes = shapes_of(shards)
    with_text = [shape for shape in shapes if _has(shape, CAPTIONS)]
    if all(_has(_without_masks(shape), IMAGES) for shape in with_text):
        return False
    if any(shard.tally("name.no-field").count for shard in shards):
        return True
    parts = {part for shape in shapes for part in shape}
    return not all(_has((part,), (*IMAGES, *CAPTIONS)) for part in parts)


def _may_hold_unnamed_image(shape: Shape) -> bool:
    """Return whether a sample has no image field that readers know, and a member that may be its image."""
    names = {part.suffix.lower() for part in shape}
    return names.isdisjoint(IMAGE_FIELDS) and not names.issubset(CAPTIONS)


def _has(shape: Shape, extensions: Collection[str]) -> bool:
    return any(part.suffix.lower().strip().rpartition(".")[2] in extensions for part in shape)


def _without_masks(shape: Shape) -> Shape:
    """Return the fields of a sample without images that belong to another one, such as masks."""
    return tuple(part for part in shape if not is_side_image(part.suffix.lower()))


def _hides_pair(suffix: str) -> bool:
    """Return whether a field name is like ``txt`` with a space, or ``jpg.txt``."""
    first, _, last = suffix.lower().rpartition(".")
    return suffix != suffix.strip() or (first in IMAGES and last in (*IMAGES, *CAPTIONS))
