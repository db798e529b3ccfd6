from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.words import how_many

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag

_MOST = 1.2


class LongEpoch(TrainingRule):
    """Rounding makes an epoch much longer than intended.

    What: OpenCLIP rounds the number of batches up twice: to whole batches of all ranks together, then to a multiple of
    the workers. With few samples, large batches and many workers this is a lot: 1,000 samples in batches of 256 with 8
    workers become 2,048; 5,000 samples in batches of 512 on 8 GPUs x 8 workers become 32,768.

    Why it matters: an epoch shows each sample several times. Steps, learning-rate schedule, checkpoints and comparisons
    "per epoch" are off by that factor.

    In practice: webdataset#303, #343, #282; small sets used to try a large configuration.

    Fix: fewer workers, a smaller batch, or fewer epochs by the factor in the message.
    """

    code = "P315"
    severity = "warning"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        length = forecast.length
        if length is None or length.inflation < _MOST:
            return
        whole = arguments.batch_size * arguments.world_size
        fix = None
        if arguments.workers > 1 and whole * -(-int(length.asked) // whole) < length.samples:
            fix = flag("--workers", "1", note=", which rounds to whole batches only")
        yield self.finding(
            f"an epoch of {length.asked:,} {'sample' if length.asked == 1 else 'samples'} becomes {length.samples:,} ({length.inflation:.2f} times as "
            f"long): rounded up to {length.worker_batches:,} x {how_many(max(1, arguments.workers), 'worker')} x {whole:,}",
            fix=fix,
        )
