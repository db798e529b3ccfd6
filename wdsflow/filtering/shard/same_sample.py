"""Whether a sample of a shard is the one that its ledger has."""

from wdsflow.filtering.ledger.sample_table import LedgerRow
from wdsflow.shards.samples.tar_samples import TarSample
from wdsflow.text.utf8 import in_utf8

OTHER_SAMPLES = "its ledger has other samples; measure it again with --restart"


def same_sample(row: LedgerRow, sample: TarSample | LedgerRow) -> bool:
    """Return whether a row of a ledger and a sample have the same key and position.

    The sample may be another row.
    """
    # A ledger has the encoded form.
    same_key = row.key == sample.key or in_utf8(row.key) == in_utf8(sample.key)
    return same_key and (row.start, row.end) == (sample.start, sample.end)
