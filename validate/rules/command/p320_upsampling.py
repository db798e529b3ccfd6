from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag


class Upsampling(TrainingRule):
    """The upsampling factors do not fit the sources.

    What: ``--train-data-upsampling-factors`` needs one number for each source of ``--train-data``, ``::`` between them, at
    least one above 0, and ``--dataset-resampled``.

    Why it matters: OpenCLIP ends with an AssertionError or ValueError before the first batch.

    In practice: a source added to ``--train-data`` and not to the factors. Also, with factors ``${NAME}`` is not
    expanded, and a factor is the weight of a *shard*: sources with more shards are drawn more often.

    Fix: as many factors as sources: ``--train-data "a/{00..09}.tar::b/{00..99}.tar" --train-data-upsampling-factors
    10::1 --dataset-resampled``.
    """

    code = "P320"
    severity = "error"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        if forecast.crash and forecast.crash_kind == "weights":
            fix = None if arguments.dataset_resampled else flag("--dataset-resampled")
            yield self.finding(forecast.crash, fix=fix)
