"""A text tower that computes no padding, and batches of token sequences.

Imports torch: import this module where it is needed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

_TRIAL = 4  # tokens between start and end


class TextTower:
    """Calls ``model.encode_text`` on tokens (n, up to the context length), padded with 0 on the right.

    Where attention is causal and the embedding is that of the last token, what stands after it decides nothing:
    positions and mask are cut to the longest caption (``trims``). Else tokens are padded to the context length.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._caller = model, _Caller(model)
        self.context = int(getattr(model, "context_length", 0))
        self.trims = self.context > _TRIAL + 2 and self._can_trim()

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return features (n, d)."""
        missing = self.context - tokens.shape[1]
        if missing > 0 and self.trims:
            return self._short(tokens)
        if missing > 0:
            tokens = torch.nn.functional.pad(tokens, (0, missing))
        features: torch.Tensor = self._model.encode_text(tokens)
        return features

    def _short(self, tokens: torch.Tensor) -> torch.Tensor:
        length, model = tokens.shape[1], self._model
        cut = {
            "model.positional_embedding": model.positional_embedding[:length],
            "model.attn_mask": model.attn_mask[:length, :length],
        }
        features: torch.Tensor = torch.func.functional_call(self._caller, cut, (tokens,))
        return features

    @torch.inference_mode()
    def _can_trim(self) -> bool:
        """Tell by the model's parts, and by a trial: models and versions of OpenCLIP differ."""
        model = self._model
        try:
            mask, last = model.attn_mask, model.token_embedding.num_embeddings - 1
            above = torch.ones_like(mask, dtype=torch.bool).triu(1)
            causal = bool((mask[above] == -torch.inf).all())
            if not causal or model.text_pool_type not in {"argmax", "eos"}:
                return False
            end = getattr(model, "text_eos_id", None) or last
            rows = [[end - 1, *range(1 + row, 1 + row + _TRIAL), end, 0] for row in range(2)]
            tokens = torch.tensor(rows, device=mask.device)
            whole = model.encode_text(torch.nn.functional.pad(tokens, (0, self.context - tokens.shape[1])))
            alike = torch.nn.functional.cosine_similarity(whole.float(), self._short(tokens).float())
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
            return False
        return bool((alike > 1 - (1e-5 if whole.dtype == torch.float32 else 1e-2)).all())


class _Caller(torch.nn.Module):
    """``encode_text`` as ``forward``, which functional_call calls."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.model.encode_text(tokens)


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
