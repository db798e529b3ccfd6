"""The tokenizer as decoders call it: in several threads, or pickled in other processes."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wdsflow.stages.tokenizer_contract import TokenizerContract


@dataclass
class TokenizedCaptions:
    """Tokenizes captions, many at once where the tokenizer gives the same then.

    One call at a time: Hugging Face's fast tokenizers cannot be shared by threads, and Python's own gain nothing.
    """

    tokenizer: Callable[[Any], Any]
    _lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._contract = TokenizerContract(self.tokenizer)

    def __reduce__(self) -> Any:
        return TokenizedCaptions, (self.tokenizer,)

    def __call__(self, texts: Sequence[str]) -> list[Any]:
        """Return a row for each text. Raises TokenizerError and CaptionFailure."""
        with self._lock:
            return self._contract(texts)
