"""Text towers of CLIPs that compute no more than a batch needs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from open_clip import CLIP

# Of the trial: tokens between start and end.
_TRIAL = 4


class TextTower:
    """Calls ``model.encode_text`` on tokens that are padded with 0 on the right.

    Tokens have the shape (n, up to the context length).

    If attention is causal and the embedding is that of the last token, later tokens have no effect:
    positions and mask are cut to the longest caption (``trims``). Otherwise tokens are padded to
    the context length.
    """

    def __init__(self, model: "CLIP") -> None:
        import torch

        class Caller(torch.nn.Module):
            """``encode_text`` as ``forward``, for functional_call."""

            # No closure: the class would keep the model alive.
            def __init__(self, model: "CLIP") -> None:
                super().__init__()
                self.model = model

            def forward(self, tokens: torch.Tensor) -> torch.Tensor:
                features: torch.Tensor = self.model.encode_text(tokens)
                return features

        self._model = model
        self._caller = Caller(model)
        self.context = int(getattr(model, "context_length", 0))
        with torch.inference_mode():
            self.trims = self.context > _TRIAL + 2 and self._can_trim()

    def __call__(self, tokens: "torch.Tensor") -> "torch.Tensor":
        """Return features (n, d)."""
        if self.trims and tokens.shape[1] < self.context:
            return self._by_cut_model(tokens)
        return self._by_padding(tokens)

    def _by_padding(self, tokens: "torch.Tensor") -> "torch.Tensor":
        """Return features of tokens that are padded to the context length."""
        import torch

        missing = max(0, self.context - tokens.shape[1])
        padded = torch.nn.functional.pad(tokens, (0, missing))
        features: torch.Tensor = self._model.encode_text(padded)
        return features

    def _by_cut_model(self, tokens: "torch.Tensor") -> "torch.Tensor":
        """Return features by the model with positions and mask cut to the length of the tokens."""
        import torch

        length = tokens.shape[1]
        cut = {
            "model.positional_embedding": self._model.positional_embedding[:length],
            "model.attn_mask": self._model.attn_mask[:length, :length],
        }
        features: torch.Tensor = torch.func.functional_call(self._caller, cut, (tokens,))
        return features

    def _can_trim(self) -> bool:
        """Return whether later tokens have no effect, by the model's parts and by a trial.

        Models and versions of OpenCLIP differ.
        """
        import torch

        try:
            if not self._looks_causal():
                return False
            tokens = self._trial_tokens()
            expected = self._by_padding(tokens)
            similarities = torch.nn.functional.cosine_similarity(
                expected.float(), self._by_cut_model(tokens).float()
            )
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
            return False
        tolerance = 1e-5 if expected.dtype == torch.float32 else 1e-2
        return bool((similarities > 1 - tolerance).all())

    def _looks_causal(self) -> bool:
        """Return whether later tokens have no effect on the embedding.

        The mask must hide later tokens, and the embedding must be that of the last token.
        """
        import torch

        mask = self._model.attn_mask
        later = torch.ones_like(mask, dtype=torch.bool).triu(1)
        hides_later = bool((mask[later] == -torch.inf).all())
        return hides_later and self._model.text_pool_type in {"argmax", "eos"}

    def _trial_tokens(self) -> "torch.Tensor":
        """Return tokens of two short texts, each with start, end, and one token of padding."""
        import torch

        last = self._model.token_embedding.num_embeddings - 1
        end = getattr(self._model, "text_eos_id", None) or last
        rows: list[list[int]] = []
        for row in range(2):
            words = range(1 + row, 1 + row + _TRIAL)
            rows.append([end - 1, *words, end, 0])
        return torch.tensor(rows, device=self._model.attn_mask.device)
