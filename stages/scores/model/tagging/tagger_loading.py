"""Stanza's networks, loaded from files: once for each process and device, for all models that ask for the same."""

import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from .sentences import LONGEST_WORD, UNKNOWN, is_word, paragraphs

_CHARACTERS, _PARAGRAPHS = 100_000, 256  # of a batch of the tokeniser's
_REMEMBERED = 2_000_000  # characters
_loaded: "WeakValueDictionary[tuple[Any, ...], Any]" = WeakValueDictionary()
_lock = threading.Lock()  # two loads at the same time would take twice the memory


def load_pipeline(files: Mapping[str, Path], lang: str, device: str, processors: str) -> Any:
    """Return a ``stanza.Pipeline`` of files, the same object as long as somebody holds it.

    ``files``: as of ``stanza_files``. What a file does not bring is not downloaded: a transformer has to be in the user's
    hub folder.
    """
    key = (tuple(sorted((name, str(path)) for name, path in files.items())), lang, device, processors)
    with _lock:
        pipeline = _loaded.get(key)
        if pipeline is None:
            pipeline = _loaded[key] = _load({name: str(path) for name, path in files.items()}, lang, device, processors)
        return pipeline


def _load(files: dict[str, str], lang: str, device: str, processors: str) -> Any:
    import stanza

    if odd := [path for path in files.values() if ";" in path]:
        raise ValueError(f"Stanza takes {odd[0]!r} for several files: no name may have a ';'")
    if "ner" in processors:  # it takes these from its index otherwise, and loads nothing where there is none
        blank = {f"ner_{kind}_path": "" for kind in ("pretrain", "forward_charlm", "backward_charlm")}
        files = {**blank, **files}
    with tempfile.TemporaryDirectory(prefix="wdsflow-stanza-") as folder:
        Path(folder, "resources.json").write_text("{}", "utf-8")  # all files are named: it needs to know no others
        try:
            return stanza.Pipeline(
                lang=lang,
                dir=folder,
                processors=processors,
                package=None,
                allow_unknown_language=True,
                tokenize_pretokenized="tokenize_model_path" not in files,
                download_method=None,
                foundation_cache=_shared(device),
                device=device,
                verbose=False,
                **files,
            )
        except OSError as error:
            name = _transformer(files[f"{processors.rpartition(',')[2]}_model_path"])
            if not name:
                raise
            raise ValueError(f"the transformer {name!r} is not in the hub's folder on this machine: {error}") from error


def _transformer(path: str) -> str | None:
    """Return the name of the transformer that a network is built upon."""
    import torch

    name: str | None = torch.load(path, map_location="cpu", weights_only=True).get("config", {}).get("bert_model")
    return name


@cache
def _shared(device: str) -> Any:  # noqa: ARG001 - a network moves what it shares to its own device
    """Return what holds word vectors and language models that several networks of a device use."""
    from stanza.models.common.foundation_cache import FoundationCache

    return FoundationCache(local_files_only=True)


class TagToken(NamedTuple):
    """A token, and the words that it is expanded to; mostly itself."""

    text: str
    words: tuple[str, ...]


Sentences = list[list[TagToken]]


class _Remembered:
    """The sentences of paragraphs of late, bounded by their characters."""

    def __init__(self) -> None:
        self._sentences: OrderedDict[str, Sentences] = OrderedDict()
        self._characters = 0

    def of(self, paragraphs: Iterable[str]) -> dict[str, Sentences]:
        return {each: self._sentences[each] for each in paragraphs if each in self._sentences}

    def add(self, paragraph: str, sentences: Sentences) -> None:
        if paragraph not in self._sentences:
            self._sentences[paragraph] = sentences
            self._characters += len(paragraph)
        while self._characters > _REMEMBERED:
            gone, _ = self._sentences.popitem(last=False)
            self._characters -= len(gone)


_remembered: "WeakKeyDictionary[Any, _Remembered]" = WeakKeyDictionary()


class Tokenizer:
    """Stanza's tokeniser, with its expander of multi-word tokens where there is one.

    What is longer than a word may be comes back as it is written, not as Stanza's ``<UNK>``.
    """

    def __init__(self, files: Mapping[str, Path], lang: str, device: str) -> None:
        own = {name: path for name, path in files.items() if name.startswith(("tokenize_", "mwt_"))}
        processors = "tokenize,mwt" if "mwt_model_path" in own else "tokenize"
        self._pipeline = load_pipeline(own, lang, device, processors)
        with _lock:
            self._remembered = _remembered.setdefault(self._pipeline, _Remembered())

    def sentences(self, texts: Sequence[str], unit: str) -> list[list[list[str]]]:
        """Return the sentences of each text: of its ``words`` (tokens where they are expanded) or its ``tokens``.

        Paragraphs that go together are in batches bounded by padded characters. Those of late are remembered: taggers that
        share a tokeniser are asked about the same captions, one after the other.
        """
        from wdsflow.memory.batching.plan import batches

        parts = [(at, paragraph) for at, text in enumerate(texts) for paragraph in paragraphs(text)]
        read = {part: [[TagToken(part, (part,))]] for _, part in parts if is_word(part)}
        read |= self._remembered.of(part for _, part in parts)
        asked = list(dict.fromkeys(part for _, part in parts if part not in read))
        for batch in batches([len(part) for part in asked], _CHARACTERS, _PARAGRAPHS, None):
            some = [asked[each] for each in batch]
            for part, document in zip(some, self._pipeline.bulk_process(some), strict=True):
                read[part] = [_written(document, sentence) for sentence in document.sentences]
                self._remembered.add(part, read[part])
        found: list[list[list[str]]] = [[] for _ in texts]
        for at, part in parts:
            found[at] += [words for sentence in read[part] if (words := _units(sentence, unit))]
        return found


def _units(sentence: Sequence[TagToken], unit: str) -> list[str]:
    return [text for text, _ in sentence] if unit == "tokens" else [word for _, words in sentence for word in words]


def _written(document: Any, sentence: Any) -> list[TagToken]:
    tokens = []
    for token in sentence.tokens:
        if token.text == UNKNOWN and token.end_char - token.start_char > LONGEST_WORD:
            text = document.text[token.start_char : token.end_char]
            tokens.append(TagToken(text, (text,)))
        else:
            tokens.append(TagToken(token.text, tuple(word.text for word in token.words)))
    return tokens
