"""Captions as tokens of a CLIP, without loading PyTorch in decoders; and text towers without padding."""

import gzip
import html
import threading
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...named_tokenizers import named_tokenizer
from ..tokenizer_limits import tokenizable, trim_cache
from .model_score import ModelFact, source_of

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from open_clip import CLIP
    from transformers import CLIPTokenizer

    Tokens = NDArray[np.int32]

LOCAL = "local-dir:"


def full_name(model: str) -> str:
    """Return a model's name, with the user's folder expanded."""
    if model.startswith(LOCAL):
        return LOCAL + str(Path(model.removeprefix(LOCAL)).expanduser())
    return model


def named(model: str, pretrained: str) -> str:
    """Return the name of a CLIP, for a folder a hash of its contents; its weights count unless others are given."""
    if not model.startswith(LOCAL):
        return model
    return LOCAL + source_of(model.removeprefix(LOCAL), weights=not pretrained)


# Tokens of OpenAI's CLIP. Tests compare them with OpenCLIP's.
#
# Source: byte pair encoding, Sennrich et al. 2016; over bytes and with its vocabulary, Radford et
# al. 2019 and 2021.

_FILE = "bpe_simple_vocab_16e6.txt.gz"
# Used lines of the file, after the first.
_MERGES = 49152 - 256 - 2
# Words.
_MOST_CACHED = 1 << 17
_PATTERN = (
    # Of regex, not of re.
    r"<start_of_text>|<end_of_text>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


class ClipWords:
    """Tokenises as OpenCLIP's ``SimpleTokenizer`` with its own vocabulary, in lower case. Thread-safe."""

    def __init__(self, vocabulary: Path) -> None:
        import regex

        lines = gzip.decompress(vocabulary.read_bytes()).decode().split("\n")
        self.merges = pairs = [tuple(line.split()) for line in lines[1 : 1 + _MERGES]]
        letters = _letters()
        units = list(letters.values())
        units += [unit + "</w>" for unit in units] + ["".join(pair) for pair in pairs]
        self.numbers = {
            unit: number for number, unit in enumerate([*units, "<start_of_text>", "<end_of_text>"])
        }
        self.ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self._letters = letters
        self._split: Callable[[str], list[str]] = regex.compile(_PATTERN, regex.IGNORECASE).findall
        self.start, self.end = len(units), len(units) + 1
        special = {"<start_of_text>": [self.start], "<end_of_text>": [self.end]}
        self._special, self._cache = special, dict[str, list[int]](special)

    def tokens(self, text: str, most: int) -> list[int]:
        """Return the tokens of a caption between those of start and end, at most ``most``."""
        import ftfy

        clean = html.unescape(html.unescape(ftfy.fix_text(text))).strip()
        found, cache = [self.start], self._cache
        for word in self._split(" ".join(clean.split()).lower()):
            found += cache.get(word) or self._merged(word)
            if len(found) >= most:
                break
        return [*found[: most - 1], self.end]

    def _merged(self, word: str) -> list[int]:
        """Merge the pair of neighbours of the lowest rank, wherever it occurs, until no pair has a rank."""
        units = [self._letters[byte] for byte in word.encode()]
        units[-1] += "</w>"
        ranks, never = self.ranks, len(self.ranks)
        while len(units) > 1:
            pairs = list(pairwise(units))
            best = min(pairs, key=lambda pair: ranks.get(pair, never))
            if best not in ranks:
                break
            joined, at = [], 0
            while at < len(units):
                here = at < len(pairs) and pairs[at] == best
                joined.append(units[at] + units[at + 1] if here else units[at])
                at += 2 if here else 1
            units = joined
        found = [self.numbers[unit] for unit in units]
        if len(self._cache) >= _MOST_CACHED:
            self._cache = dict(self._special)
        self._cache[word] = found
        return found


@lru_cache(maxsize=1)
def clip_words() -> ClipWords | None:
    """Return the tokeniser, None if OpenCLIP's vocabulary is not found; OpenCLIP is not imported."""
    found = find_spec("open_clip")
    paths = (
        [Path(folder, _FILE) for folder in (found.submodule_search_locations or ())]
        if found
        else []
    )
    return next((ClipWords(path) for path in paths if path.is_file()), None)


def _letters() -> dict[int, str]:
    """Return a visible letter for each byte: its own if Latin-1 has one, otherwise the next from 256 on."""
    own = [byte for byte in range(256) if 33 <= byte <= 126 or (byte >= 161 and byte != 173)]
    others = [byte for byte in range(256) if byte not in own]
    return {byte: chr(byte) for byte in own} | {
        byte: chr(256 + number) for number, byte in enumerate(others)
    }


# Tokens by transformers' CLIPTokenizer, with OpenCLIP's vocabulary: nothing is downloaded. It is
# the tokenizer of transformers' CLIP processors, and so of Data-Juicer: unlike OpenCLIP's, it does
# not repair text.

# Tokenizers of transformers are not thread-safe.
_lock = threading.Lock()


def hf_tokens(text: str, most: int) -> list[int]:
    """Return the tokens of a caption between those of start and end, at most ``most``."""
    with _lock:
        found: list[int] = hf_tokenizer()(text, truncation=True, max_length=most, verbose=False)[
            "input_ids"
        ]
    return found


@lru_cache(maxsize=1)
def hf_tokenizer() -> "CLIPTokenizer":
    """Return the tokenizer. Raises ImportError without transformers, ValueError if OpenCLIP's vocabulary is not found."""
    from transformers import CLIPTokenizer

    words = clip_words()
    if words is None:
        raise ValueError("processor='hf' needs the vocabulary in the package open_clip_torch")
    numbers = dict(words.numbers)
    numbers["<|startoftext|>"], numbers["<|endoftext|>"] = (
        numbers.pop("<start_of_text>"),
        numbers.pop("<end_of_text>"),
    )
    # Has incomplete types.
    tokenizer: Any = CLIPTokenizer
    return tokenizer(vocab=numbers, merges=words.merges)


Processor = Literal["openclip", "hf"]


def clip_item(model: str, text: str, by: Processor = "openclip") -> "str | Tokens":
    """Return the input of the text tower: tokens without padding if a decoder can make them, otherwise the caption.

    Raises ScoreError "too-long".
    """
    context, words = known_context(model), clip_words()
    if context is None or words is None:
        return tokenizable(text)
    import numpy as np

    tokens = words.tokens if by == "openclip" else hf_tokens
    return np.array(tokens(tokenizable(text), context), np.int32)


def must_tokenize(model: str, by: Processor) -> None:
    """Raise ValueError if ``by`` cannot tokenise the captions of a model."""
    if by == "hf":
        hf_tokenizer()
        if known_context(model) is None:
            raise ValueError(
                "processor='hf' is for models with the vocabulary of OpenAI's CLIP; this one has another"
            )


@ModelFact
@cache
def known_context(model: str) -> int | None:
    """Return the context length of a model whose captions ``ClipWords`` can tokenise; None if only OpenCLIP can."""
    from open_clip import tokenizer as module

    tokenizer: Any = named_tokenizer(full_name(model))
    words = clip_words()
    plain = (
        words is not None
        and type(tokenizer) is module.SimpleTokenizer
        and tokenizer.reduction_fn is None
        and tokenizer.clean_fn is module.get_clean_fn("lower")
        and (tokenizer.encoder, tokenizer.bpe_ranks, tokenizer.pat.pattern)
        == (words.numbers, words.ranks, _PATTERN)
    )
    return int(tokenizer.context_length) if plain else None


def stacked(model: str, batch: "Sequence[str | Tokens]") -> "Tokens":
    """Return items of ``clip_item`` as one array, padded with 0 to the longest."""
    import numpy as np

    rows = [clip_tokens(model, item) if isinstance(item, str) else item for item in batch]
    found = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, tokens in enumerate(rows):
        found[row, : len(tokens)] = tokens
    return found


def clip_tokens(model: str, text: str) -> "Tokens":
    """Return tokens, padded and cut to the context length of the model."""
    tokenizer: Any = named_tokenizer(full_name(model))
    with _lock:
        tokens = tokenizer([text])[0]
        trim_cache(tokenizer)
    found: Tokens = tokens.numpy().astype("int32")
    return found


# Tokens between start and end.
_TRIAL = 4


class TextTower:
    """Calls ``model.encode_text`` on tokens (n, up to the context length), padded with 0 on the right.

    If attention is causal and the embedding is that of the last token, later tokens have no effect:
    positions and mask are cut to the longest caption (``trims``). Otherwise tokens are padded to
    the context length.
    """

    def __init__(self, model: "CLIP") -> None:
        import torch

        class Caller(torch.nn.Module):
            """``encode_text`` as ``forward``, for functional_call."""

            def __init__(
                self, model: "CLIP"
            ) -> None:  # no closure: the class would keep the model alive
                super().__init__()
                self.model = model

            def forward(self, tokens: torch.Tensor) -> torch.Tensor:
                features: torch.Tensor = self.model.encode_text(tokens)
                return features

        self._model, self._caller = model, Caller(model)
        self.context = int(getattr(model, "context_length", 0))
        with torch.inference_mode():
            self.trims = self.context > _TRIAL + 2 and self._can_trim()

    def __call__(self, tokens: "torch.Tensor") -> "torch.Tensor":
        """Return features (n, d)."""
        return (
            self._short(tokens)
            if self.trims and tokens.shape[1] < self.context
            else self._whole(tokens)
        )

    def _whole(self, tokens: "torch.Tensor") -> "torch.Tensor":
        import torch

        missing = max(0, self.context - tokens.shape[1])
        features: torch.Tensor = self._model.encode_text(
            torch.nn.functional.pad(tokens, (0, missing))
        )
        return features

    def _short(self, tokens: "torch.Tensor") -> "torch.Tensor":
        import torch

        length, model = tokens.shape[1], self._model
        cut = {
            "model.positional_embedding": model.positional_embedding[:length],
            "model.attn_mask": model.attn_mask[:length, :length],
        }
        features: torch.Tensor = torch.func.functional_call(self._caller, cut, (tokens,))
        return features

    def _can_trim(self) -> bool:
        """Decide by the model's parts, and by a trial: models and versions of OpenCLIP differ."""
        import torch

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
            whole = self._whole(tokens)
            alike = torch.nn.functional.cosine_similarity(
                whole.float(), self._short(tokens).float()
            )
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
            return False
        return bool((alike > 1 - (1e-5 if whole.dtype == torch.float32 else 1e-2)).all())
