"""Results of a chunk on their way from a worker process: a single piece of shared memory, whatever the chunk holds.

Each tensor that is sent by itself takes an open file on both sides until it is gone; a batch of a thousand samples
would take more than the 1,024 that a process usually may have. Imports torch in functions only.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from .tally import Loss
from .work import Made


class Parcel(NamedTuple):
    """What a chunk became; images and texts are apart where they could be joined."""

    results: list[Made | Loss]
    images: Any  # a tensor, None where images are in their places
    texts: Any  # an array, which travels through the pipe; None likewise


def pack(results: Sequence[Made | Loss]) -> Parcel:
    """Join images and texts, in the worker's process."""
    made = [each for each in results if isinstance(each, Made)]
    images, texts = _joined([each.image for each in made]), joined_rows([each.text for each in made])
    rest = [
        each
        if isinstance(each, Loss)
        else Made(None if images is not None else each.image, None if texts is not None else each.text)
        for each in results
    ]
    return Parcel(rest, images, texts)


def unpack(parcel: Parcel) -> list[Made | Loss]:
    """Return the results with images and texts in their places; the shared memory is given back."""
    images = None if parcel.images is None else iter(parcel.images.clone())
    texts = None if parcel.texts is None else iter(parcel.texts)
    return [
        each
        if isinstance(each, Loss)
        else Made(each.image if images is None else next(images), each.text if texts is None else next(texts))
        for each in parcel.results
    ]


def joined_rows(items: list[Any]) -> Any:
    """Return texts as one array with a row for each; None where they cannot be joined."""
    import numpy as np

    if items and all(type(item) is np.ndarray and item.ndim for item in items):
        first = items[0]
        same = all(item.shape == first.shape and item.dtype == first.dtype for item in items)
        return np.stack(items) if same and first.dtype.kind in "biuf" else None
    joined = _joined(items)
    return joined.numpy() if joined is not None and joined.dim() > 1 else None


def _joined(items: list[Any]) -> Any:
    import torch

    if not items or not all(type(item) is torch.Tensor for item in items):
        return None
    first = items[0]
    if first.is_cuda or first.requires_grad or first.dtype is torch.bfloat16:
        return None
    if any(item.shape != first.shape or item.dtype != first.dtype for item in items):
        return None
    return torch.stack(items)
