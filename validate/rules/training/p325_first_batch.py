from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.words import size

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule

_SLOW = 300.0  # seconds, at the slow end of the range


class SlowStart(TrainingRule):
    """The first batch takes minutes, at every epoch.

    What: each worker fills its shuffle buffer with 1,000 raw samples (or all it has) before it gives the first one, and
    decodes a whole batch before it delivers it. The buffer is discarded at the end of every epoch.

    Why it matters: with samples of megabytes and many workers, gigabytes are read before the GPU has work, and again at
    each epoch. It looks like a stall but is not.

    In practice: open_clip#703 (pauses between epochs); webdataset#333, #267 (large images), #357.

    Fix: smaller images; longer and fewer epochs (``--train-num-samples`` may be several passes); fewer workers on slow
    storage; with OpenCLIP 4 a smaller OPENCLIP_WDS_SAMPLE_SHUFFLE_INITIAL.
    """

    code = "P325"
    severity = "info"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        needs = forecast.resources
        if needs is None or needs.first_batch is None or needs.first_batch[1] < _SLOW or forecast.stalled:
            return
        fast, slow = needs.first_batch
        members = sum(shard.member_bytes for shard in context.evidence.shards)
        mean = members / max(1, context.evidence.samples)
        yield self.finding(
            f"the first batch of each epoch comes after {fast:,.0f} to {slow:,.0f} s: each of {arguments.workers} workers "
            f"reads {needs.raw_before_first:,} samples of {size(mean)} first"
        )
