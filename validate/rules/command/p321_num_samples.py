from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag

_OFF = 0.1


class WrongNumSamples(TrainingRule):
    """The number of samples per epoch differs from that of the shards.

    What: ``--train-num-samples``, or the count next to the shards, differs by more than a tenth from the number of
    usable samples.

    Why it matters: OpenCLIP never counts. If the number is too large, every epoch repeats samples; if it is too small,
    each epoch sees only the first part of a new order. Either way, epochs, the learning-rate schedule and comparisons
    with other runs are misleading.

    In practice: the number of another set pasted with the command (open_clip#1016, #899); the count before filtering or
    before failed downloads; open_clip#993, #555; datacomp#48, #55, where it is done on purpose.

    Fix: the number in the message, if an epoch is to be one pass.
    """

    code = "P321"
    severity = "warning"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        length = forecast.length
        if length is None or not forecast.usable or abs(length.asked - forecast.usable) <= _OFF * forecast.usable:
            return
        ratio = length.asked / forecast.usable
        yield self.finding(
            f"an epoch is set to {length.asked:,} samples ({forecast.length_source}), but {forecast.usable:,} are "
            f"usable: {ratio:,.2f} passes",
            fix=flag("--train-num-samples", str(forecast.usable)),
        )
