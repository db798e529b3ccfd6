"""The tokens of captions."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from wdsflow.stages.tokenizer_contract import TokenizerContract

Tokenizer: TypeAlias = Callable[[Any], Any]


def no_tokenizer(text: str) -> list[str]:
    """Leave a caption as it is."""
    return [text]


class TokenizedCaptions:
    """Tokenizes captions, in batches if the tokenizer returns the same for batches.

    Calls are serialised: Hugging Face's fast tokenizers are not thread-safe, and pure Python ones
    would gain nothing.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._lock = threading.Lock()
        self._contract = TokenizerContract(tokenizer)

    def __reduce__(self) -> tuple[type["TokenizedCaptions"], tuple[Tokenizer]]:
        return TokenizedCaptions, (self.tokenizer,)

    def __call__(self, texts: Sequence[str]) -> list[Any]:
        """Return a row for each text. Raises TokenizerError and CaptionFailure."""
        with self._lock:
            return self._contract(texts)
