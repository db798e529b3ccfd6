"""Who iterates over a feed.

Some callers would get batches of batches, some processes would get samples twice.
"""

from types import FrameType

import torch

from wdsflow.training.feed_options import FeedError
from wdsflow.training.ranks import JobRank, current_rank, is_distributed

# The part of a DataLoader that iterates over a dataset.
_FETCH = "torch.utils.data._utils.fetch"


def check_caller(frame: FrameType | None) -> None:
    """Raise FeedError if a DataLoader that collates batches has called the function of a frame.

    It would join the feed's batches to batches of batches.
    """
    caller = frame.f_back if frame is not None else None
    # Of no other caller: a frame whose locals were read keeps them, such as a batch or the feed,
    # until it ends.
    if caller is None or caller.f_globals.get("__name__") != _FETCH:
        return
    if getattr(caller.f_locals.get("self"), "auto_collation", False):
        raise FeedError(
            "the feed gives batches, and this DataLoader would join them to batches of batches. The feed alone is enough: "
            "for batch in feed; where a DataLoader must be: DataLoader(feed, batch_size=None)"
        )


def check_process(made_for: JobRank, *, detected: bool) -> None:
    """Raise FeedError if this process would get samples that others get too.

    Args:
        made_for: the rank of the feed.
        detected: whether it was read from the environment, instead of given by the user.
    """
    worker = torch.utils.data.get_worker_info()
    if worker is not None and worker.num_workers > 1:
        raise FeedError(
            f"each of {worker.num_workers} workers of a DataLoader would give all samples; the feed has decoders of its "
            "own: DataLoader(feed, batch_size=None, num_workers=0)"
        )
    if detected and is_distributed() and (here := current_rank()) != made_for:
        raise FeedError(
            f"the feed was made for rank {made_for.rank} of {made_for.world_size}, before torch.distributed was set up; "
            f"this is rank {here.rank} of {here.world_size}. Make it afterwards (with Lightning, in train_dataloader()), "
            "or give rank= and world_size="
        )
