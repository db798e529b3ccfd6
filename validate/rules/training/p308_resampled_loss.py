from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.words import how_many

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule


class ResampledLoss(TrainingRule):
    """Shards that hold nothing usable are drawn again and again.

    What: with ``--dataset-resampled`` each worker draws shards with replacement, forever, and logs errors without
    stopping. Some of the shards that it can draw give no usable sample.

    Why it hurts: a draw of such a shard reads it, drops everything without a word, and draws again: time and bandwidth
    for nothing, at every visit. Where all shards are so, no worker ever gives a batch and no version of webdataset
    ends the loop, because the list of shards has no end.

    In the wild: open_clip#480, PR#259, PR#328 (images that the filter of the day did not know).

    Cure: leave these shards out of ``--train-data``, or repair them; the findings on the shards say how.
    """

    code = "P308"
    severity = "warning"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        drawn = forecast.resampled
        if drawn is None or not drawn.dead_shards:
            return
        if forecast.stalled:
            if not any(verdict.usable for verdict in context.verdicts if verdict.reader == forecast.reader):
                return  # P301 says so
            yield self.finding(
                "no shard that can be drawn holds a usable sample: training hangs",
                severity="error",
                count=drawn.dead_shards,
            )
            return
        share = drawn.dead_shards / forecast.shards
        yield self.finding(
            f"{how_many(drawn.dead_shards, 'shard')} of {forecast.shards:,} can be drawn and hold nothing usable: "
            f"about {share:.0%} of all draws are for nothing",
            count=drawn.dead_shards,
        )
