from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.words import how_many

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, sharing


class TooFewShards(TrainingRule):
    """The set has fewer shards than loader workers.

    What: without ``--dataset-resampled`` each shard goes to one worker of one rank. The set therefore needs at least
    ``--workers`` times ranks shards, and more if the workers should get about the same amount.

    Why it matters: OpenCLIP ends with "AssertionError: number of shards must be >= total workers". With ``--workers 0``
    it does not check and starts, and a rank without a shard hangs. webdataset 1.x raises "No samples found in dataset;
    perhaps you have fewer shards than workers".

    In practice: open_clip data.py:403; webdataset#65, #72; open_lm#111, #189; RobustVLM#29 (other results with other
    ``num_workers``).

    Fix: fewer workers; more, smaller shards; or ``--dataset-resampled``, which lets every worker draw from all shards.
    """

    code = "P303"
    severity = "error"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        if arguments.dataset_resampled or not forecast.shards:
            return
        total = arguments.world_size * max(1, arguments.workers)
        if forecast.shards >= total:
            return
        if not any(reader.empty_stalls for reader in context.readers if reader.name == forecast.reader):
            ends = "each worker needs one"
        else:
            ends = "OpenCLIP refuses to start" if arguments.workers else "ranks without a shard hang"
        have = f"{how_many(forecast.shards, 'shard')} for {how_many(total, 'worker')}"
        split = f"{how_many(arguments.world_size, 'rank')} x {how_many(max(1, arguments.workers), 'worker')}"
        yield self.finding(f"{have} ({split}): {ends}", fix=sharing(context, arguments, forecast))
