from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag

_OFF = 0.1


class WrongNumSamples(TrainingRule):
    """The number of samples of an epoch is not that of the shards.

    What: ``--train-num-samples``, or the count beside the shards, differs by more than a tenth from the samples that are
    usable.

    Why it hurts: OpenCLIP never counts. With a number too large every epoch repeats samples; with one too small each
    epoch sees the first part of a new order only. Either way epochs, the learning-rate schedule and
    comparisons with other runs mean something else than they say.

    In the wild: the number of another set pasted along with the command (open_clip#1016, #899); the count of before
    filtering or of before failed downloads; open_clip#993, #555; datacomp#48, #55, where it is done on purpose.

    Cure: the number in the message, if an epoch is to be one pass.
    """

    code = "P321"
    severity = "warning"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        length = forecast.length
        if length is None or not forecast.usable or abs(length.asked - forecast.usable) <= _OFF * forecast.usable:
            return
        ratio = length.asked / forecast.usable
        yield self.finding(
            f"an epoch is said to have {length.asked:,} samples ({forecast.length_source}), and {forecast.usable:,} are "
            f"usable: {ratio:,.2f} passes",
            cure=flag("--train-num-samples", str(forecast.usable)),
        )
