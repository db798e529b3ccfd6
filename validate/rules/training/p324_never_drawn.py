from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule

_SHARE = 0.1


class NeverDrawn(TrainingRule):
    """Resampling leaves many of the shards out of an epoch.

    What: with ``--dataset-resampled`` shards are drawn with replacement, each with the same probability, whatever its
    size. With n shards and d draws, the share (1 - 1/n)^d is not drawn on average: 37 % if d = n.

    Why it matters: an "epoch" is not a pass over the data. Over many epochs it evens out; over one or two, a third of
    the data is never seen while another part is seen several times. Samples of small shards are seen more often than
    those of large ones.

    In practice: webdataset#453, #310, #158.

    Fix: none is needed for many epochs. For one or two, train without ``--dataset-resampled`` (it needs shards >=
    workers x ranks).
    """

    code = "P324"
    severity = "info"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        drawn = forecast.resampled
        if drawn is None or not drawn.draws or drawn.never_seen < _SHARE:
            return
        whole = drawn.never_seen**arguments.epochs
        all_epochs = f", {whole:.1%} in all {arguments.epochs:,} epochs" if arguments.epochs > 1 else ""
        yield self.finding(
            f"on average {drawn.never_seen:.0%} of the shards are not drawn in an epoch{all_epochs} (about "
            f"{drawn.draws:,.0f} draws of {forecast.shards:,} shards per epoch)"
        )
