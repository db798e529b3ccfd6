"""Source and destination of the embeddings of one shard while it is scored."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.stages.scores.model.model_score import ModelScore, Output, Request
from wdsflow.stages.scores.model.models.clip.clip_model import ClipImage, ClipText
from wdsflow.stages.scores.model.models.clip.clip_score import ClipScore
from wdsflow.stages.scores.model.models.embedded import embedding_key
from wdsflow.stages.scores.sample_view import View
from wdsflow.stages.scores.score_errors import ScoreError

if TYPE_CHECKING:
    from .embedding_spool import Spool
    from .stored_embeddings import StoredEmbeddings


class ShardEmbeddings(AbstractContextManager["ShardEmbeddings"]):
    """Finds embeddings in the ledger of an earlier run, if there is one, and keeps those of this run, if requested.

    ``own``: those that the shard's ledger has already. They are kept as they are.
    """

    def __init__(
        self,
        *,
        spool: "Spool | None" = None,
        stored: "StoredEmbeddings | None" = None,
        own: "StoredEmbeddings | None" = None,
    ) -> None:
        self.spool, self._stored, self._own = spool, stored, own

    def __exit__(self, *_: object) -> None:
        """Close what is open."""
        for each in (self.spool, self._stored, self._own):
            if each is not None:
                each.close()

    def find(self, row: Row, view: View, request: Request) -> Output | None:
        """Return the output of a request if it is already known. Raises ScoreError."""
        places = [each for each in (self._own, self._stored) if each is not None]
        if not places or not isinstance(request.model, (ClipImage, ClipText)):
            return None
        key = embedding_key(view, request)
        found = (each.find(row, request.model, key) for each in places)
        return next((each for each in found if each is not None), None)

    def keep_own(self, row: Row) -> None:
        """Keep the embeddings that the ledger has of a sample. Raises SourceError, OSError if the disk fails."""
        if self.spool is not None and self._own is not None:
            for column, found in self._own.all_of(row):
                self.spool.add_to(column, row, found)

    def keep(
        self, row: Row, view: View, score: ModelScore, requests: Sequence[Request], outputs: Sequence[Output]
    ) -> None:
        """Keep all embeddings of a sample that a score requested. Raises OSError if the disk fails."""
        if self.spool is None or not isinstance(score, ClipScore):
            return
        try:
            keys = [embedding_key(view, request) for request in requests]
        except ScoreError:  # the file is gone: its embedding could not be found again
            return
        for embedded in score.embedded():
            found = zip(keys, requests, outputs, strict=True)
            own = [(key, output) for key, request, output in found if request.model == embedded.model]
            self.spool.add(row, embedded, own)


NONE = ShardEmbeddings()
