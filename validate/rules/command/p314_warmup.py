from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag


class LongWarmup(TrainingRule):
    """The warm-up is longer than the training.

    What: ``--warmup`` counts steps, 10,000 by default. The whole training has fewer.

    Why it matters: the learning rate rises towards ``--lr`` and never reaches it: a run of 1,000 steps ends at a tenth
    of it. The loss falls slowly, and other settings are blamed for it.

    In practice: ``--warmup 90000`` for a run of 43 shards (open_clip#1093); fine-tuning on small sets with the default.

    Fix: set ``--warmup`` to a tenth of all steps or less.
    """

    code = "P314"
    severity = "warning"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        total = forecast.total_steps
        if not total or forecast.warmup <= total:
            return
        yield self.finding(
            f"--warmup {forecast.warmup:,} is more than the {total:,} steps of the whole training: the learning rate "
            f"ends at {total / forecast.warmup:.0%} of --lr",
            fix=flag("--warmup", str(max(1, total // 20))),
        )
