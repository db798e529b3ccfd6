from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.words import how_many

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, sharing


class StarvedWorker(TrainingRule):
    """A loader worker never fills a batch.

    What: OpenCLIP shuffles the list of shards by seed and epoch, and distributes it to ranks, then to the workers of
    each rank. wdsflow computed this split: the shards of some worker hold fewer usable samples than one batch.

    Why it matters: training drops the unfinished batch at the end of each pass, so this worker starts over again and
    again. torch takes batches from the workers in turn: a worker that gives none stops its rank. The other ranks wait
    for it in the next all-reduce, until NCCL's timeout ends the run with a message that does not mention data. This may
    happen only in a later epoch, when the shards are distributed again.

    In practice: open_clip#61 ("hangs with 2 workers, fine with 1"), #1024 (WorkNCCL timeout); webdataset#188, #225, #65.

    Fix: fewer workers or a smaller batch, as the message says; shards of equal size; or ``--dataset-resampled``, with
    which every worker draws from all shards.
    """

    code = "P302"
    severity = "error"
    requires = ("P303",)

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        if not forecast.stalled or not forecast.usable:
            return
        more = len(forecast.stalled) - 1
        others = f"; so do{'es' if more == 1 else ''} {how_many(more, 'other worker')}" if more else ""
        yield self.finding(
            f"{forecast.stalled[0]}{others}", count=len(forecast.stalled), fix=sharing(context, arguments, forecast)
        )
