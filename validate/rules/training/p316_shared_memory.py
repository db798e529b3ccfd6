from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.words import size

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag


class SharedMemory(TrainingRule):
    """Batches need more shared memory than /dev/shm has.

    What: workers pass batches through /dev/shm, and torch keeps two of each worker ready: 2 x workers x batch x (3 x
    height x width x 4 bytes for images, 8 bytes for each token), times the processes per machine. wdsflow compares that
    with the size of /dev/shm here.

    Why it matters: "RuntimeError: DataLoader worker (pid ...) is killed by signal: Bus error. It is possible that
    dataloader's workers are out of shared memory." Docker gives a container 64 MB by default; a batch of 256 images of
    224 x 224 is 154 MB.

    In practice: pytorch#5040; streaming#493; Protenix#2.

    Fix: ``docker run --shm-size=16g`` or ``--ipc=host``; in Kubernetes an emptyDir with ``medium: Memory`` at
    /dev/shm; or fewer workers.
    """

    code = "P316"
    severity = "warning"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        needs = forecast.resources
        if needs is None or needs.shm_total is None or needs.shm_bytes <= needs.shm_total:
            return
        fit = arguments.workers * needs.shm_total // needs.shm_bytes
        height, width = needs.image_size
        yield self.finding(
            f"{arguments.workers * arguments.local_world_size} workers of a machine keep {size(needs.shm_bytes)} of batches "
            f"({height} x {width} pixels) in /dev/shm, which has {size(needs.shm_total)} here",
            fix=flag("--workers", str(fit), note=", or give the container more") if fit else None,
        )
