"""Models of transformers: classifiers, matchers of images and texts, language models."""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..model_score import Item, Loaded, Model, ModelSource, Output, Precision
from .hub import (
    black_picture,
    config_of,
    labels_of,
    load_model,
    pixel_values,
    probabilities,
    squeezed_to,
    tokenizer_of,
    where,
)
from .weights import ModelFact, local_path, source_of

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from tokenizers import Tokenizer


_lock = threading.Lock()  # tokenizers are for one thread at a time
_FILE = "tokenizer.json"
_TRIAL = "A Ne\u0301w photo, of\ttwo  DOGS\u2019 n\u00e4me: 1,234 \u732b\U0001f600 <b>x</b>\n"


class TextFacts(NamedTuple):
    """Facts about a model by which decoders tokenize captions.

    ``file``: a tokenizer.json that the library tokenizers can read by itself; "" if transformers is needed. ``side``:
    where a long text is cut. ``bound``: the most tokens of model and tokenizer. ``start``: the token that begins a
    text, otherwise the one that ends it.
    """

    file: str
    side: str
    bound: int | None
    start: int | None


@lru_cache(maxsize=16)
def _found(name: str) -> TextFacts:
    tokenizer = tokenizer_of(name)
    bounds = [tokenizer.model_max_length, getattr(config_of(name), "max_position_embeddings", None)]
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    side = str(getattr(tokenizer, "truncation_side", "right"))
    return TextFacts(
        _file_of(name, tokenizer, side), side, min((int(each) for each in bounds if each), default=None), start
    )


text_facts = ModelFact(_found)


def longest(name: str, most: int) -> int:
    """Return the most tokens of a text: ``most``, or fewer if the model or its tokenizer has a lower limit."""
    return min(most, text_facts(name).bound or most)


def token_ids(name: str, text: str, most: int, *, special: bool = True) -> list[int]:
    """Return the tokens of a text, cut to ``most``, with start and end tokens if ``special``."""
    facts = text_facts(name)
    with _lock:
        if text_facts.is_shared(name) and facts.file:
            ids = _by_file(_plain(facts.file), facts.side, text, most, special=special)
        else:
            ids = _by_transformers(tokenizer_of(name), text, most, special=special)
    return ids[:most]  # tokenizers do not cut if start and end tokens have no room


def _file_of(name: str, tokenizer: Any, side: str) -> str:
    """Return a tokenizer's file if it alone yields the tokens of transformers, otherwise ""."""
    try:
        from transformers.utils.hub import cached_file

        given = where(name)
        folder, revision = given["pretrained_model_name_or_path"], given.get("revision")
        path = Path(cached_file(folder, _FILE, revision=revision, local_files_only=True) or "")
        if not path.is_file() or _rules(_plain(str(path))) != _rules(tokenizer.backend_tokenizer):
            return ""
        text = _TRIAL + " ".join(tokenizer.all_special_tokens)
        for most, special in ((512, True), (512, False), (4, True), (4, False)):
            expected = _by_transformers(tokenizer, text, most, special=special)
            if _by_file(_plain(str(path)), side, text, most, special=special) != expected:
                return ""
    except (ImportError, AttributeError, OSError, TypeError, ValueError):
        return ""  # a tokenizer of another kind
    return str(path.absolute())


def _rules(tokenizer: "Tokenizer") -> dict[str, object]:
    """Return the definition of a tokenizer, without the options of a call."""
    found = json.loads(tokenizer.to_str())
    return {part: value for part, value in found.items() if part not in {"truncation", "padding"}}


@lru_cache(maxsize=16)
def _plain(file: str) -> "Tokenizer":
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(file)
    tokenizer.no_padding()
    return tokenizer


def _by_file(tokenizer: "Tokenizer", side: str, text: str, most: int, *, special: bool) -> list[int]:
    tokenizer.enable_truncation(most, direction=side)
    return list(tokenizer.encode(text, add_special_tokens=special).ids)


def _by_transformers(tokenizer: Any, text: str, most: int, *, special: bool) -> list[int]:
    found = tokenizer(text, truncation=True, max_length=most, add_special_tokens=special, verbose=False)
    return list(found["input_ids"])


def padded(
    batch: "Sequence[Sequence[int] | NDArray[np.int32]]", device: str, fill: int = 0
) -> "dict[str, torch.Tensor]":
    """Return ``input_ids`` and ``attention_mask`` (n, longest), padded on the right.

    Positions count from each text's start, so that causal attention does not see the padding.
    """
    import numpy as np
    import torch

    ids = np.full((len(batch), max(map(len, batch))), fill, np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {"input_ids": torch.from_numpy(ids).to(device), "attention_mask": torch.from_numpy(mask).to(device)}


@dataclass(frozen=True, kw_only=True)
class TransformerModel(Model):
    """A model of transformers: ``model`` is "org/name", "org/name@revision" or a folder."""

    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers", "tokenizers")
    loads: ClassVar[str]  # transformers' class
    facts_shared: ClassVar[tuple[ModelFact[Any], ...]] = ()  # for decoders

    model: str
    precision: Precision = "fp32"

    def load(self, device: str) -> Loaded:
        """Return the model."""
        return load_model(self.loads, self.model, self.precision, device)

    def called(self) -> str:
        """Return its name for messages."""
        return f"{self.kind}, {self.model!r}"

    def fetched(self) -> ModelSource | None:
        """Return its repository."""
        if local_path(self.model) is not None:
            return None
        name, _at, revision = self.model.partition("@")
        return ModelSource(name, revision, "model='./FOLDER'")

    def facts(self) -> tuple[object, ...]:
        """Return the facts for decoders."""
        return tuple(fact(self.model) for fact in self.facts_shared)

    def recall(self, facts: tuple[object, ...]) -> None:
        """Keep the facts of another process."""
        for fact, known in zip(self.facts_shared, facts, strict=True):
            fact.share(known, self.model)

    def identity(self) -> dict[str, object]:
        """Return what affects outputs; folders by a hash of their contents."""
        return {**super().identity(), "settings": {**vars(self), "model": source_of(self.model)}}


@dataclass(frozen=True, kw_only=True)
class TokenModel(TransformerModel):
    """A model of transformers whose items are the token ids of a text, int32."""

    max_tokens: int = 512

    def cost(self, item: Item) -> int:
        """Return the tokens."""
        return len(item)

    def largest(self) -> Item:
        """Return the longest possible text."""
        import numpy as np

        return np.ones(longest(self.model, self.max_tokens), np.int32)


@dataclass(frozen=True, kw_only=True)
class ImageClassifier(TransformerModel):
    """From pictures of ``preparation`` to the probabilities of all labels, float32 (labels)."""

    kind: ClassVar[str] = "transformers image classifier"
    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers", "pillow", "simplejpeg")
    loads: ClassVar[str] = "AutoModelForImageClassification"
    facts_shared = (labels_of, squeezed_to)

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an array for each picture."""
        pixels = pixel_values(self.model, batch, str(loaded.device)).to(loaded.dtype)
        return probabilities(loaded(pixel_values=pixels).logits, loaded.config)

    def cost(self, item: Item) -> int:
        """Return the pixels."""
        return int(item.shape[1] * item.shape[2])

    def largest(self) -> Item | None:
        """Return a black picture if all have the same size."""
        return black_picture(self.model)


MOST_TOKENS = 512
_PATCH = 256  # pixels that cost what a token costs: vision transformers cut patches of 16 x 16


@dataclass(frozen=True, kw_only=True)
class ImageTextMatcher(TransformerModel):
    """From (picture, token ids) to the probability that they match. ``model`` is a BlipForImageTextRetrieval."""

    kind: ClassVar[str] = "BLIP image-text matching"
    packages: ClassVar[tuple[str, ...]] = (*TransformerModel.packages, "pillow", "simplejpeg")
    loads: ClassVar[str] = "BlipForImageTextRetrieval"
    facts_shared = (text_facts, squeezed_to)

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        """Return a number for each pair."""
        import torch

        device = str(loaded.device)
        pixels = pixel_values(self.model, [picture for picture, _tokens in batch], device).to(loaded.dtype)
        inputs = padded([tokens for _picture, tokens in batch], device, loaded.config.text_config.pad_token_id or 0)
        with torch.device(device):  # it makes a mask on the default device
            scores = loaded(**inputs, pixel_values=pixels, use_itm_head=True).itm_score
        found: list[float] = scores.float().softmax(-1)[:, 1].tolist()
        return found

    def cost(self, item: Item) -> int:
        """Return the pixels, and 256 for each token."""
        picture, tokens = item
        return int(picture.shape[1] * picture.shape[2]) + _PATCH * len(tokens)

    def largest(self) -> Item | None:
        """Return a black picture with the longest text."""
        import numpy as np

        black = black_picture(self.model)
        return None if black is None else (black, np.ones(longest(self.model, MOST_TOKENS), np.int32))


@dataclass(frozen=True, kw_only=True)
class LanguageModel(TokenModel):
    """From token ids, int32, to the mean negative log likelihood (nats) of all but the first of them, a float."""

    kind: ClassVar[str] = "transformers language model"
    loads: ClassVar[str] = "AutoModelForCausalLM"
    facts_shared = (text_facts,)

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        """Return a number for each text."""
        from torch.nn.functional import cross_entropy

        inputs = padded(batch, str(loaded.device))
        logits = loaded(**inputs, use_cache=False).logits
        found = []
        for row, tokens in enumerate(batch):  # individually: a float32 copy of all logits would double the peak
            last = len(tokens) - 1
            loss = cross_entropy(logits[row, :last].float(), inputs["input_ids"][row, 1 : last + 1])
            found.append(float(loss))
        return found


@dataclass(frozen=True, kw_only=True)
class TextClassifier(TokenModel):
    """From token ids, int32, to the probabilities of all labels, float32 (labels)."""

    kind: ClassVar[str] = "transformers text classifier"
    loads: ClassVar[str] = "AutoModelForSequenceClassification"
    facts_shared = (text_facts, labels_of)

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an array for each text."""
        config = loaded.config
        known = config.pad_token_id
        # Causal models look for the last token before the padding: without a padding token, take one that no text has.
        fill = next(number for number in count() if not any(number in ids for ids in batch)) if known is None else known
        config.pad_token_id = fill
        try:
            return probabilities(loaded(**padded(batch, str(loaded.device), fill)).logits, config)
        finally:
            config.pad_token_id = known
