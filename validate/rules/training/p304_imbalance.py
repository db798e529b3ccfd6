from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag

_RATIO = 1.5  # the richest worker's share over the poorest's


class Imbalance(TrainingRule):
    """Some workers have far more to read than others.

    What: every worker gives the same number of batches an epoch, whatever its shards hold. The forecast dealt the shards
    out as OpenCLIP does and counted usable samples.

    Why it hurts: a worker with few samples repeats them within the epoch, one with many leaves out the rest. The
    samples in large shares are seen less often than those in small ones. With all else equal, one shard more or less
    for a worker makes no difference at hundreds of shards a worker, and a factor of two at one or two.

    In the wild: 43 shards on 8 GPUs with 4 workers each (open_clip#1093); RobustVLM#29; webdataset#71, #62.

    Cure: a number of shards that is a multiple of ranks times workers, or many times larger; shards of equal size; or
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
        dealt = f"; {forecast.shards:,} shards are no multiple of {workers:,} workers" if rest else ""
        yield self.finding(
            f"usable samples a worker range from {low.usable:,} to {high.usable:,} in epoch 0, so that some samples are "
            f"used {high.usable / low.usable:.1f} times as often as others{dealt}",
            cure=flag("--dataset-resampled", note=", or shards of equal size in a suitable number"),
        )
