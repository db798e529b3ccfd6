from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.words import how_many

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule


class ResampledLoss(TrainingRule):
    """Shards without usable samples are drawn again and again.

    What: with ``--dataset-resampled`` each worker draws shards with replacement, endlessly, and logs errors without
    stopping. Some of the shards that it can draw have no usable sample.

    Why it matters: the worker reads such a shard, silently drops everything, and draws again: each visit wastes time
    and bandwidth. If all shards are like this, no worker ever gives a batch, and no version of webdataset ends the
    loop, because the list of shards has no end.

    In practice: open_clip#480, PR#259, PR#328 (image types that the filter of that version did not know).

    Fix: leave these shards out of ``--train-data``, or repair them as the findings on the shards explain.
    """

    code = "P308"
    severity = "warning"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        drawn = forecast.resampled
        if drawn is None or not drawn.dead_shards:
            return
        if forecast.stalled:
            if not any(verdict.usable for verdict in context.verdicts if verdict.reader == forecast.reader):
                return  # P301 reports it
            yield self.finding(
                "none of the shards has a usable sample: training hangs",
                severity="error",
                count=drawn.dead_shards,
            )
            return
        share = drawn.dead_shards / forecast.shards
        yield self.finding(
            f"{how_many(drawn.dead_shards, 'shard')} of {forecast.shards:,} can be drawn and have no usable sample: "
            f"about {share:.0%} of all draws are wasted",
            count=drawn.dead_shards,
        )
