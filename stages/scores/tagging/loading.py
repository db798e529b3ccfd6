"""Stanza's networks, loaded from files: once for each process and device, for all models that ask for the same."""

import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from .sentences import LONGEST_WORD, UNKNOWN, is_word, paragraphs

_CHARACTERS, _PARAGRAPHS = 100_000, 256  # of a batch of the tokeniser's
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


class Tokenizer:
    """Stanza's tokeniser, with its expander of multi-word tokens where there is one.

    What is longer than a word may be comes back as it is written, not as Stanza's ``<UNK>``.
    """

    def __init__(self, files: Mapping[str, Path], lang: str, device: str) -> None:
        own = {name: path for name, path in files.items() if name.startswith(("tokenize_", "mwt_"))}
        processors = "tokenize,mwt" if "mwt_model_path" in own else "tokenize"
        self._pipeline = load_pipeline(own, lang, device, processors)

    def sentences(self, texts: Sequence[str], unit: str) -> list[list[list[str]]]:
        """Return the sentences of each text: of its ``words`` (tokens where they are expanded) or its ``tokens``.

        Paragraphs that go together are in batches bounded by padded characters.
        """
        from wdsflow.memory.batching.plan import batches

        parts = [(at, paragraph) for at, text in enumerate(texts) for paragraph in paragraphs(text)]
        read = {place: [[part]] for place, (_, part) in enumerate(parts) if is_word(part)}
        asked = [place for place in range(len(parts)) if place not in read]
        for batch in batches([len(parts[place][1]) for place in asked], _CHARACTERS, _PARAGRAPHS, None):
            places = [asked[each] for each in batch]
            documents = self._pipeline.bulk_process([parts[place][1] for place in places])
            for place, document in zip(places, documents, strict=True):
                read[place] = [_written(document, sentence, unit) for sentence in document.sentences]
        found: list[list[list[str]]] = [[] for _ in texts]
        for place, (at, _) in enumerate(parts):
            found[at] += [words for words in read[place] if words]
        return found


def _written(document: Any, sentence: Any, unit: str) -> list[str]:
    words = []
    for token in sentence.tokens:
        if token.text == UNKNOWN and token.end_char - token.start_char > LONGEST_WORD:
            words.append(document.text[token.start_char : token.end_char])
        elif unit == "tokens":
            words.append(token.text)
        else:
            words += [word.text for word in token.words]
    return words
