from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule


class EmptyValidation(TrainingRule):
    """The validation set gives no sample.

    What: none of the shards of ``--val-data`` exists, or none of their samples is usable.

    Why it matters: OpenCLIP 3.3 evaluates on rank 0 after the first epoch, gets no sample, and ends with "torch.cat():
    expected a non-empty list of Tensors", while the other ranks wait at a barrier until NCCL gives up. That may be
    hours into the run. OpenCLIP 4 skips the evaluation: no figures, and no message.

    In practice: open_clip train.py:317 and main.py:505; val sets in another layout than the training set.

    Fix: the same as for training data: validate the val shards too, ``wdsflow validate VAL_URL``.
    """

    code = "P317"
    severity = "error"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        if forecast.validation:
            yield self.finding(forecast.validation, severity="error" if forecast.validation_crash else "warning")
