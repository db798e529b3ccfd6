"""The evidence of the shards that a repair would write, and the verdicts on them.

Nothing is written.

Most shards keep their structure, and most steps of a plan change names only: their evidence is
computed from that of the scan. A shard is read again, as a preview, only if its outcome depends on
names or contents that the evidence does not hold.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from wdsflow.readers.base import Reader
from wdsflow.readers.shared_keys import continued_shards
from wdsflow.repair.borders import UNMOVED, Borders, moves_across_borders
from wdsflow.repair.repair_plan import RepairPlan
from wdsflow.scan.evidence import Evidence, ScanOptions, ShardEvidence
from wdsflow.shards.shard import Shard

from ..rules.kit.edited_evidence import shards_after_edit
from ..rules.kit.shape_edits import ShapeEdits
from ..verdicts.judge import judge
from ..verdicts.verdict import Verdict
from .empty_captions import empty_captions
from .preview_need import keeps_structure, needs_contents
from .preview_scan import NOT_TRIED, scan_preview
from .repaired_evidence import shard_after_edits, with_output_name
from .typical_shards import typical_shards

# scan_shards, with its engine
Scan = Callable[..., list[ShardEvidence]]


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
        self._moved = moves_across_borders(urls) if continued_shards(self._shards) else {}
        # Indices of the shards whose structure a repair changes even without steps.
        self._restructured = set(self._moved)
        for index, shard in enumerate(self._shards):
            if not keeps_structure(shard):
                self._restructured.add(index)
        self._previews = {} if previews is None else previews
        self._repaired: dict[RepairPlan, RepairedSet] = {}
        self._verdicts: dict[RepairPlan, tuple[Verdict, ...]] = {}

    @property
    def _compares_fields(self) -> bool:
        """Whether some reader compares the fields of samples with those of the first ones."""
        return any(reader.same_fields for reader in self.readers)

    def draft(self) -> "RepairForecast":
        """Return a forecast that is good enough to compare plans, and cheap.

        Images are not decoded again. Of many shards with the same traits, two are enough.
        """
        options = self._options
        if options.level == "full":
            options = replace(options, level="headers")
        shards = typical_shards(self.evidence.shards)
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
        """Return the number of empty captions in the repaired shards.

        It is 0 if no reader takes captions.

        Without a plan, that of the shards as they are.
        """
        if not any(reader.pairs_with == "caption" for reader in self.readers):
            return 0
        shards = self.evidence.shards if plan is None else self.repaired(plan).shards
        return sum(map(empty_captions, shards))

    def _predict(self, plan: RepairPlan) -> RepairedSet:
        """Return the shards that a repair would write.

        They are edited evidence, or previews where that is not enough.
        """
        if plan.drop_bad and not self._compares_fields:
            # What is left out depends on what the evidence says of each sample.
            complete = self.repaired(replace(plan, drop_bad=False))
            shards = shards_after_edit(complete.shards, ShapeEdits(drop_bad=True))
            return RepairedSet(shards, complete.is_known)
        indexes = range(len(self._shards))
        previewed = {index for index in indexes if self._needs_preview(index, plan)}
        if self._is_draft and not self._compared.issuperset(previewed):
            # What was computed without these previews cannot be compared with this plan.
            self._compared.update(previewed)
            self._repaired.clear()
            self._verdicts.clear()
        self._preview(sorted(previewed), plan)
        edits = ShapeEdits.of_plan(plan)
        shards = []
        is_known = True
        for index, shard in enumerate(self._shards):
            repaired = self._previews.get(self._preview_key(index, plan))
            if repaired is None:
                is_known = is_known and index not in previewed
                repaired = shard_after_edits(shard, edits)
            elif repaired.error == NOT_TRIED:
                is_known = False
                repaired = shard
            if repaired.runs.head is not None:
                shards.append(with_output_name(repaired))
        return RepairedSet(shards, is_known)

    def _preview(self, indexes: Iterable[int], plan: RepairPlan) -> None:
        """Read shards as a repair would write them, each once for a plan."""
        keys: list[PreviewKey] = []
        for index in indexes:
            key = self._preview_key(index, plan)
            # A pipe can be read once, and was.
            if key not in self._previews and not key.url.is_pipe:
                keys.append(key)
        if not keys:
            return
        urls = [key.url for key in keys]
        scans = [partial(scan_preview, moved=key.moved, plan=plan) for key in keys]
        scanned = self._scan(urls, self._options, scan_functions=scans)
        for key, shard in zip(keys, scanned, strict=True):
            self._previews[key] = shard

    def _preview_key(self, index: int, plan: RepairPlan) -> PreviewKey:
        return PreviewKey(self._shards[index].url, self._moved.get(index, UNMOVED), plan)

    def _needs_preview(self, index: int, plan: RepairPlan) -> bool:
        """Return whether the outcome of a shard cannot be computed from its evidence."""
        if index in self._restructured or index in self._compared:
            return True
        # Such readers look at the first samples in their
        # order, which an edit of evidence does not keep.
        if index == 0 and plan.steps() and self._compares_fields:
            return True
        return needs_contents(self._shards[index], plan, is_read=self._options.level != "names")
