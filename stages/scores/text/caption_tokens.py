"""How many tokens a caption takes."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ...tokenize import named_tokenizer
from ..base import TextScore, versions_of
from .lengths import tokenizable, trim_cache


@dataclass(frozen=True, kw_only=True)
class CaptionTokens(TextScore):
    """Number of tokens of the caption in OpenCLIP's tokenizer of ``model``, start and end marks not counted.

    Captions of more than 75 tokens are cut in training if the context has 77, as for ViT-B-32. From 0 on. Captions of
    more than 20,000 characters, or with a word of more than 500, are an error ("too-long"). Source:
    ``open_clip.get_tokenizer``. Imports torch.
    """

    name: ClassVar[str] = "caption_tokens"
    unit: ClassVar[str] = "tokens"
    low: ClassVar[float | None] = 0
    needs: ClassVar[tuple[str, ...]] = ("openclip",)
    packages: ClassVar[tuple[str, ...]] = ("open_clip_torch",)

    model: str = "ViT-B-32"

    def of(self, text: str) -> int:
        """Return the number of tokens."""
        tokenizable(text)
        tokenizer: Any = named_tokenizer(self.model)
        encode = getattr(tokenizer, "encode", None)
        if encode is None:
            return len(tokenizer.tokenizer(tokenizer.clean_fn(text), add_special_tokens=False).input_ids)
        tokens = len(encode(text))
        trim_cache(tokenizer)
        return tokens

    def versions(self) -> dict[str, Any]:
        """Return the versions of OpenCLIP, and of the libraries of some tokenizers."""
        return versions_of(*self.packages, "transformers", "tokenizers")
