from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule


class CommandFails(TrainingRule):
    """The training command ends with an exception.

    What: an exception before the first batch, or at the first bad sample, for a reason that has no separate rule: a
    variable in ``--train-data`` that is not set, unbalanced braces, ``--train-num-samples 0``, a sample at which the
    reader raises an error.

    Why it matters: the run ends; with several ranks, one ends and the others wait for it.

    In practice: ``${BUCKET}`` in ``--train-data`` stands for the environment variable WDS_BUCKET, not BUCKET.

    Fix: follow the message.
    """

    code = "P323"
    severity = "error"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        if forecast.crash and forecast.crash_kind == "other":  # the other kinds have rules: P303, P318, P320, P322
            yield self.finding(forecast.crash)
