"""The embeddings that the scores of a shard use.

Those that ledgers have, and new ones, which are kept.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from wdsflow.stages.scores.model.clip.clip_score import ClipScore, embedding_key
from wdsflow.stages.scores.model.clip.towers import ClipImage, ClipText
from wdsflow.stages.scores.model.model import Output
from wdsflow.stages.scores.model.model_score import ModelScore, Request

from .embedding_spool import Spool
from .sample_table import LedgerRow
from .stored_embeddings import StoredEmbeddings


class ShardEmbeddings(AbstractContextManager["ShardEmbeddings"]):
    """Finds embeddings in the ledger of an earlier run, and keeps those of this run.

    There may be no earlier run. Embeddings are kept only if requested.

    ``current``: those that the shard's ledger has already. They are kept unchanged.
    """

    def __init__(
        self,
        *,
        spool: Spool | None = None,
        stored: StoredEmbeddings | None = None,
        current: StoredEmbeddings | None = None,
    ) -> None:
        self.spool = spool
        self._stored = stored
        self._current = current
        self.in_use = spool is not None or stored is not None or current is not None

    def __exit__(self, *_: object) -> None:
        """Close the file of new embeddings."""
        if self.spool is not None:
            self.spool.close()

    def find(self, row: LedgerRow, request: Request) -> Output | None:
        """Return the output of a request if it is already known."""
        if not isinstance(request.model, (ClipImage, ClipText)):
            return None
        key = embedding_key(request)
        for ledger in (self._current, self._stored):
            if ledger is not None:
                vector = ledger.find(row, request.model, key)
                if vector is not None:
                    return vector
        return None

    def keep_current(self, row: LedgerRow) -> None:
        """Keep the embeddings that the ledger has of a sample.

        Raises SourceError, and OSError if the disk fails.
        """
        if self.spool is not None and self._current is not None:
            for column, embeddings in self._current.all_of(row):
                self.spool.add(column, row, embeddings)

    def keep(
        self,
        row: LedgerRow,
        score: ModelScore,
        requests: Sequence[Request],
        outputs: Sequence[Output],
    ) -> None:
        """Keep all embeddings of a sample that a score requested.

        Raises OSError if the disk fails.
        """
        if self.spool is None or not isinstance(score, ClipScore):
            return
        for embedded in score.embedding_specs():
            embeddings = []
            for request, output in zip(requests, outputs, strict=True):
                if request.model == embedded.model:
                    embeddings.append((embedding_key(request), output))
            self.spool.add(self.spool.column_of(embedded), row, embeddings)
