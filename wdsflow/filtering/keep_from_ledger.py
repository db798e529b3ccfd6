"""A stage that keeps the samples that pass a predicate, by the scores in ledgers."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from wdsflow.filtering.deciding.ledger_subset import LedgerSubset, UnknownShard
from wdsflow.filtering.deciding.measure_advice import measure_command
from wdsflow.filtering.ledger.ledger_metadata import LedgerError
from wdsflow.shards.source.base import SourceError, single_shard
from wdsflow.stages import SampleStage
from wdsflow.stages.base import Dropped, Sample, StageError
from wdsflow.text.utf8 import in_utf8

# Samples of the latest shards whose outcomes are held.
_HELD = 1 << 20
_KEPT, _AMBIGUOUS = "", "\0"


class _Outcomes:
    """The outcomes of the latest shards' samples.

    A copy in another process reads the ledgers itself.
    """

    def __init__(self) -> None:
        self._subset: LedgerSubset | None = None
        self._shards: OrderedDict[str, dict[str, str]] = OrderedDict()

    def __reduce__(self) -> tuple[type["_Outcomes"], tuple[()]]:
        return _Outcomes, ()

    def why_not_kept(self, stage: "KeepFromLedger", url: str) -> dict[str, str]:
        """Return why samples of a shard are not kept, by key. Raises LedgerError, SourceError."""
        if url not in self._shards:
            self._subset = self._subset or LedgerSubset.of(stage.ledger, stage.where)
            reasons: dict[str, str] = {}
            for row in self._subset.shard(single_shard(url)).rows()[0]:
                reason = _KEPT if row.outcome == "kept" else row.term or row.error or row.outcome
                before = reasons.setdefault(row.key, reason)
                if (before == _KEPT) != (reason == _KEPT):
                    reasons[row.key] = _AMBIGUOUS
            self._shards[url] = reasons
            while len(self._shards) > 1 and sum(map(len, self._shards.values())) > _HELD:
                self._shards.popitem(last=False)
        self._shards.move_to_end(url)
        return self._shards[url]


@dataclass(frozen=True)
class KeepFromLedger(SampleStage):
    """Keep samples that pass a predicate, by scores that ``wdsflow measure`` computed.

    Nothing is scored.

    A sample is looked up by ``__url__`` and ``__key__``, so the stage can be anywhere in a
    pipeline; the earlier, the fewer samples are decoded. Others are dropped, and counted by the
    term of the predicate that they fail.

    Args:
        ledger: the folder that ``wdsflow measure`` or ``filter`` wrote.
        where: the predicate, as for ``wdsflow filter``. It must not compare samples with each
            other.
        unknown: what to do with a sample, or a shard, that is not in the ledger: "error" or "keep".
            An error is a StageError with the command that scores the shard; ``on_error="drop"``
            counts and drops the sample.

    Raises:
        LedgerError: the folder has no ledgers, they lack a score, or the predicate compares
            samples.
        ValueError: the predicate is invalid.

    >>> KeepFromLedger("none", "width > 200")
    Traceback (most recent call last):
    wdsflow.filtering.ledger.ledger_metadata.LedgerError: none has no ledgers: give the folder that
    filter or measure wrote
    """

    name: ClassVar[str] = "keep_from_ledger"

    ledger: str
    where: str
    unknown: Literal["error", "keep"] = "error"
    _outcomes: _Outcomes = field(
        default_factory=_Outcomes, init=False, compare=False, hash=False, repr=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        subset = LedgerSubset.of(self.ledger, self.where)
        if subset.compares:
            raise LedgerError(
                f"{self.where} compares samples of all shards: only wdsflow filter and train can do that"
            )

    def apply(self, sample: Sample) -> Sample:
        """Drop a sample that does not pass the predicate."""
        url, key = str(sample.get("__url__", "")), in_utf8(str(sample.get("__key__", "")))
        if not url:
            raise StageError(
                "no-url",
                "without __url__ its shard is unknown: put this stage before those that drop it",
            )
        try:
            reason = self._outcomes.why_not_kept(self, url).get(key)
        except UnknownShard as error:
            return self._keep_or_raise(sample, url, "no-ledger", str(error))
        except LedgerError as error:
            raise StageError("ledger", self._advised(str(error), url)) from error
        except SourceError as error:
            raise StageError(
                "unreadable-shard", f"the shard cannot be compared with its ledger: {error}"
            ) from error
        if reason == _AMBIGUOUS:
            raise StageError(
                "ambiguous-key", "samples of this key are both kept and dropped: make keys unique"
            )
        if reason is None:
            return self._keep_or_raise(
                sample, url, "not-in-ledger", f"{self.ledger} has no sample of this key"
            )
        if reason != _KEPT:
            raise Dropped(reason)
        return sample

    def _keep_or_raise(self, sample: Sample, url: str, slug: str, message: str) -> Sample:
        if self.unknown == "keep":
            return sample
        raise StageError(slug, self._advised(message, url))

    def _advised(self, message: str, url: str) -> str:
        return f"{message}; to measure it: {measure_command([url], self.ledger, self.where)[0]}"
