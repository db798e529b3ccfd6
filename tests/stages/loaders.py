"""Stages in the loaders of webdataset and torch, with parts that workers can import."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from wdsflow.stages.base import Sample


@dataclass(frozen=True)
class Given:
    """Samples as the source of a pipeline, which can go to a worker."""

    samples: tuple[Sample, ...]

    def __call__(self) -> Iterator[Sample]:
        """Yield copies of the samples."""
        return (dict(sample) for sample in self.samples)


def has_jpg(sample: Sample) -> bool:
    """Whether a sample has a field ``jpg``: a predicate that workers can import."""
    return "jpg" in sample


def through_loader(
    stage: Callable[[Iterable[Sample]], Iterable[Sample]],
    samples: Sequence[Sample],
    method: str | None = None,
) -> list[Sample]:
    """Return what comes out of a plain ``wds.DataPipeline`` with this stage.

    ``method`` "fork", "spawn" or "forkserver" runs it in a worker of torch's DataLoader; None in
    this process.
    """
    import webdataset

    pipeline = webdataset.DataPipeline(Given(tuple(samples)), stage)
    if method is None:
        return list(pipeline)
    from torch.utils.data import DataLoader

    return list(
        DataLoader(pipeline, batch_size=None, num_workers=1, multiprocessing_context=method)
    )
