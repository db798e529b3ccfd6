"""The progress of a feed at one moment."""

from typing import NamedTuple

from wdsflow.shards.cache.figures import CacheFigures

from .loss_tally import LossTally


class Facts(NamedTuple):
    """The progress of a feed at one moment."""

    epoch: int
    # Of this epoch.
    batch: int
    num_batches: int
    # Delivered in this epoch.
    samples: int
    # Samples per second, recently or in the whole epoch.
    rate: float
    # Fraction of that time that training waited.
    share: float
    # Seconds, since the feed began.
    waited: float
    # Since the feed began.
    batches: int
    # Since the feed began.
    total: LossTally
    # Of this epoch.
    tally: LossTally
    # The epoch is complete.
    done: bool = False
    # Of shards that are kept on this machine, since the feed began and of this epoch.
    total_cache: CacheFigures | None = None
    cache: CacheFigures | None = None
