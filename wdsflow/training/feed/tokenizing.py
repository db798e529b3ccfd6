"""The tokenizer, called for many captions at once where it gives the same then."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

_TRIAL = ("a cat", "two photographs of a red bicycle, leaning on a wall")


@dataclass
class TokenizedCaptions:
    """Calls ``tokenizer(text)[0]`` for each text, or the tokenizer once for all.

    One call at a time: Hugging Face's fast tokenizers cannot be shared by threads, and Python's own gain nothing.
    """

    tokenizer: Callable[[Any], Any]
    _lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)
    _many: bool | None = None  # not tried yet

    def __reduce__(self) -> Any:
        return TokenizedCaptions, (self.tokenizer,)

    def __call__(self, texts: Sequence[str]) -> list[Any]:
        """Return what the tokenizer gives for each text, its first dimension removed."""
        with self._lock:
            if self._many is None:
                self._many = self._takes_many()
            if self._many:
                return list(self.tokenizer(list(texts)).numpy())  # a row of torch's takes ten times as long
            return [self.tokenizer(text)[0] for text in texts]

    def _takes_many(self) -> bool:
        """Return whether a list gives a tensor of the rows that single texts give."""
        import torch

        if getattr(self.tokenizer, "reduction_fn", None) is not None:
            return False  # may draw by chance
        try:
            rows = self.tokenizer(list(_TRIAL))
            single = [self.tokenizer(text)[0] for text in _TRIAL]
        except Exception:  # noqa: BLE001 - whatever it raises, it wants one text at a time
            return False
        if not isinstance(rows, torch.Tensor) or len(rows) != len(single) or rows.dim() < 2:
            return False
        try:
            rows.numpy()
        except (RuntimeError, TypeError):  # on another device, with gradients, of 16 bits
            return False
        return all(
            isinstance(one, torch.Tensor) and torch.equal(row, one) for row, one in zip(rows, single, strict=True)
        )
