"""Reads some samples of a shard again, and checks that they are the same as before."""

from collections.abc import Iterable, Iterator

from wdsflow.filtering.deciding.direct_scores import ViewedSample
from wdsflow.filtering.ledger.sample_table import LedgerRow
from wdsflow.filtering.samples.staging import RejectedSample
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.base import SourceChangedError

from .open_shard import OpenShard
from .same_sample import OTHER_SAMPLES, same_sample


def selected_samples(shard: OpenShard, rows: Iterable[LedgerRow]) -> Iterator[ViewedSample]:
    """Yield the samples of some rows, each with its view, in the order of the shard.

    Raises SourceError; SourceChangedError if the shard has other samples than before.
    """
    missing = {row.number: row for row in rows}
    if not missing:
        return
    samples = Samples(shard.source, contents=False)
    views = shard.views(samples)
    for sample in samples:
        row = missing.pop(sample.number, None)
        if row is None:
            continue
        if not same_sample(row, sample):
            raise SourceChangedError(OTHER_SAMPLES)
        shard.mark.set_sample(sample.number)
        try:
            view = views.view(sample)
        # The stages accepted it when it was scored.
        except RejectedSample as rejected:
            reason = rejected.detail or rejected.trouble
            raise SourceChangedError(f"sample {row.number}: {reason}") from None
        yield ViewedSample(row, view)
        if not missing:
            break
    shard.mark.set_sample(-1)
    if missing:
        raise SourceChangedError(OTHER_SAMPLES)
