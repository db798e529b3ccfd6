from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.words import how_many

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag


class NoStep(TrainingRule):
    """Training never takes a step.

    What: ``--accum-freq`` is larger than the number of batches of an epoch. OpenCLIP collects that many batches before the
    optimizer steps, and begins anew at every epoch.

    Why it hurts: no epoch is long enough, so that all of them pass in seconds without a step. Nothing is logged, checkpoints
    of an untrained model are saved, and the run ends with success.

    In the wild: a configuration for a large set tried out on a small one (open_clip_train/train.py, the ``continue``
    before the step).

    Cure: a smaller ``--accum-freq`` or a smaller batch.
    """

    code = "P313"
    severity = "error"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        length = forecast.length
        if length is None or forecast.steps or not length.batches:
            return
        yield self.finding(
            f"--accum-freq {arguments.accum_freq:,} is more than the {how_many(length.batches, 'batch', 'batches')} of an epoch: "
            "the optimizer never steps",
            cure=flag("--accum-freq", str(length.batches), note=": the most that steps at all"),
        )
