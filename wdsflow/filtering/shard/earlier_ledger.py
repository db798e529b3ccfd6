"""The ledger of an earlier run with some of the scores, whose values are used again."""

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.plan import FilterPlan
from wdsflow.filtering.ledger.ledger_metadata import check_same_shard
from wdsflow.filtering.ledger.read_ledger import read_ledger
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.shards.source.base import SourceChangedError

from .open_shard import KILLED
from .same_sample import OTHER_SAMPLES, same_sample


class EarlierLedger:
    """The samples of a ledger that has fewer scores than a run needs.

    Args:
        layout: the folder with the ledger.
        record: the shard.
        plan: the scores that the run needs.
        for_all: whether the ledger has its scores for all samples, not only for those that needed
            them.

    Attributes:
        calls: the scores that need not be computed.
        path: the file.
        metadata: its metadata.

    Raises LedgerError if the ledger is of another shard.
    """

    def __init__(
        self, layout: Layout, record: ShardRecord, plan: FilterPlan, *, for_all: bool
    ) -> None:
        self.path = layout.ledger(record.name)
        self._stored, self.metadata = read_ledger(self.path)
        check_same_shard(self.metadata, record, self.path)
        names = set(self.metadata["identities"])
        # Results of comparisons are not kept: they are computed again.
        self._columns = [
            call for call in plan.scores if str(call) in names and call not in plan.dataset_calls
        ]
        self._gathered = plan.gathered_calls
        self.calls = frozenset[ScoreCall](self._columns if for_all else ())

    def table(self) -> SampleTable:
        """Return a table with the columns of the ledger, and no sample yet."""
        table = SampleTable()
        for call in self._columns:
            table.columns[call] = self._stored.columns[call]
        for call in self._gathered:
            gathered = self._stored.gathered[call]
            table.gathered[call] = gathered
            for number, value in self._stored.columns[call].items():
                if isinstance(value, Unknown) and number not in gathered:
                    table.columns[call][number] = value
        return table

    def fill(self, row: LedgerRow) -> None:
        """Set what the ledger has of a sample besides its values.

        Raises SourceChangedError if the sample differs.
        """
        if row.number >= len(self._stored.rows):
            raise SourceChangedError(OTHER_SAMPLES)
        stored = self._stored.rows[row.number]
        if not same_sample(stored, row):
            raise SourceChangedError(OTHER_SAMPLES)
        row.digest = stored.digest
        if stored.trouble == KILLED:
            row.trouble = KILLED

    def check_count(self, table: SampleTable) -> None:
        """Raise SourceChangedError if the number of samples differs."""
        if len(table.rows) != len(self._stored.rows):
            raise SourceChangedError(OTHER_SAMPLES)
