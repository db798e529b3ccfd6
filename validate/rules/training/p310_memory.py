from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.words import size

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag


class ShuffleMemory(TrainingRule):
    """The shuffle buffers need more memory than is free.

    What: every loader worker keeps up to 5,000 samples, undecoded, to shuffle them: 5,000 x bytes per sample x workers
    x processes per machine. wdsflow compares that with the free memory of this machine (or container).

    Why it matters: the buffers fill within minutes; then the kernel kills a worker, and torch reports "DataLoader
    worker (pid ...) is killed by signal: Killed". Samples of 20 KB need 100 MB per worker, those of 2 MB need 10 GB.

    In practice: webdataset#256, #357, #325, #17; open_clip#845.

    Fix: fewer workers; smaller images (at 224 x 224 most of their pixels are discarded); with OpenCLIP 4 a smaller
    buffer by the environment variable OPENCLIP_WDS_SAMPLE_SHUFFLE_SIZE.
    """

    code = "P310"
    severity = "warning"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        needs = forecast.resources
        if needs is None or needs.shuffle_bytes is None or needs.available_bytes is None:
            return
        if needs.shuffle_bytes <= needs.available_bytes:
            return
        fit = arguments.workers * needs.available_bytes // needs.shuffle_bytes
        yield self.finding(
            f"the shuffle buffers of a machine grow to {size(needs.shuffle_bytes)}, and "
            f"{size(needs.available_bytes)} are free here",
            fix=flag("--workers", str(fit), note=", if it runs on this machine") if fit else None,
        )
