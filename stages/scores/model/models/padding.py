"""Token sequences of several lengths as one batch. Imports torch: import this module where it is needed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def padded(batch: Sequence[Any], device: str, fill: int = 0) -> dict[str, torch.Tensor]:
    """Return ``input_ids`` and ``attention_mask`` (n, longest), padded on the right.

    So positions count from each text's own start, and what causal attention sees of a text does not change.
    """
    ids = np.full((len(batch), max(map(len, batch))), fill, np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {"input_ids": torch.from_numpy(ids).to(device), "attention_mask": torch.from_numpy(mask).to(device)}
