from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.words import how_many

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag


class NoStep(TrainingRule):
    """Training never takes a step.

    What: ``--accum-freq`` is larger than the number of batches of an epoch. OpenCLIP collects that many batches before
    the optimizer steps, and starts again at every epoch.

    Why it matters: no epoch is long enough: all epochs pass in seconds without a step. OpenCLIP logs nothing, saves
    checkpoints of an untrained model, and ends with success.

    In practice: a configuration for a large set tried on a small one (open_clip_train/train.py, the ``continue`` before
    the step).

    Fix: a smaller ``--accum-freq`` or a smaller batch.
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
            fix=flag("--accum-freq", str(length.batches), note=", the most that steps at all"),
        )
