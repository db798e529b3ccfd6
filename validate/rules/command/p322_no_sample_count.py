from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag


class NoSampleCount(TrainingRule):
    """OpenCLIP cannot find the number of samples.

    What: ``--train-num-samples`` is missing, and next to the first shard is neither a ``sizes.json`` nor a ``__len__``
    that OpenCLIP can use. For urls and pipes it never looks.

    Why it matters: it ends with "RuntimeError: Currently, the number of dataset samples must be specified for the training
    dataset", or with the error that reading the file raises.

    In practice: open_flamingo#206; LAION-Face#11; open_clip PR#482, PR#339.

    Fix: ``--train-num-samples`` with the number of usable samples. ``wdsflow repair`` writes sizes.json next to its
    output.
    """

    code = "P322"
    severity = "error"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        if forecast.crash and forecast.crash_kind == "samples":
            facts = context.sidecars.facts if context.sidecars is not None else ()
            if not forecast.crash.startswith("RuntimeError") and any(fact.problem != "stale" for fact in facts):
                return  # P305 names the file
            verdict = next((each for each in context.verdicts if each.reader == forecast.reader), None)
            fix = flag("--train-num-samples", str(verdict.usable)) if verdict and verdict.usable else None
            yield self.finding(forecast.crash, fix=fix)
