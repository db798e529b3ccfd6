from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag

_RATIO = 1.5  # the largest share of a worker over the smallest


class Imbalance(TrainingRule):
    """Some workers have far more to read than others.

    What: every worker gives the same number of batches per epoch, whatever its shards hold. The forecast distributed
    the shards as OpenCLIP does, and counted the usable samples.

    Why it matters: a worker with few samples repeats them within the epoch; a worker with many leaves out the rest.
    Samples in large shares are seen less often than those in small ones. One shard more or less makes no difference for
    a worker with hundreds of shards, and a factor of two for one with one or two.

    In practice: 43 shards on 8 GPUs with 4 workers each (open_clip#1093); RobustVLM#29; webdataset#71, #62.

    Fix: a number of shards that is a multiple of ranks times workers, or many times larger; shards of equal size; or
    ``--dataset-resampled``.
    """

    code = "P304"
    severity = "warning"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        low, high = forecast.poorest, forecast.richest
        if forecast.stalled or low is None or high is None or not low.usable or high.usable < _RATIO * low.usable:
            return
        workers = arguments.world_size * max(1, arguments.workers)
        rest = forecast.shards % workers
        dealt = f"; {forecast.shards:,} shards are not a multiple of {workers:,} workers" if rest else ""
        yield self.finding(
            f"usable samples per worker range from {low.usable:,} to {high.usable:,} in epoch 0: some samples are "
            f"used {high.usable / low.usable:.1f} times as often as others{dealt}",
            fix=flag("--dataset-resampled", note=", or shards of equal size in a suitable number"),
        )
