"""The first sample of a shard, whose fields some readers expect in all others."""

from wdsflow.scan.content.field_kinds import IMAGE_EXTENSIONS

from .same_key import Segment

# Ray Data makes tensors of these, and ends where a sample
# lacks one that the first sample of its block has.
_TENSORS = IMAGE_EXTENSIONS | {"npy"}


def with_common_first(samples: list[Segment]) -> list[Segment]:
    """Return the samples with one first that has no image or array that others lack.

    The first such sample is moved to the front.

    They stay as they are if there is none.
    """
    tensors = [_tensors(sample) for sample in samples]
    if not tensors:
        return samples
    common = frozenset.intersection(*tensors)
    for index, fields in enumerate(tensors):
        if fields <= common:
            return [samples[index], *samples[:index], *samples[index + 1 :]]
    return samples


def _tensors(sample: Segment) -> frozenset[str]:
    return frozenset(name for name in sample.parts if name.rpartition(".")[2] in _TENSORS)
