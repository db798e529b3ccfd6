"""Stanza's networks: their files in a folder, loaded once per process and device. Nothing is downloaded."""

import json
import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from .clip_weights import local_path
from .sentences import LONGEST_WORD, UNKNOWN, is_word, paragraphs

_BESIDE = ("pretrain", "forward_charlm", "backward_charlm")  # what a tagger may need next to itself
_LANGUAGE = re.compile(r"[a-z]{2,8}([-_][a-z0-9]{1,8})*")
_INDEX = "resources.json"


class StanzaFolder:
    """A folder as ``stanza.download(model_dir=...)`` leaves it: LANGUAGE/PROCESSOR/NAME.pt, and resources.json.

    The index says which files make a ``package``, and what a file needs next to itself. Without one, or where it does
    not know the language, a folder of a processor is to have one file. Raises ValueError.
    """

    def __init__(self, root: Path, lang: str, package: str) -> None:
        if not _LANGUAGE.fullmatch(lang):
            raise ValueError(f"{lang!r} is not a language code, such as 'en' or 'zh-hans'")
        index = _index(root)
        lang = index.get(lang, {}).get("alias", lang)
        self._about: Mapping[str, Any] = index.get(lang, {})
        self._root, self._package = root / lang, package

    def model(self, processor: str, *, optional: bool = False) -> Path | None:
        """Return the file of a processor ("tokenize", "mwt", "pos", "ner"); None if it may be missing and is."""
        packages = self._about.get("packages")
        if packages is None:
            return self._only(processor, optional=optional)
        if self._package not in packages:
            raise ValueError(f"{self._root}: no package {self._package!r}; there are {', '.join(sorted(packages))}")
        names = {**packages[self._package].get("optional", {}), **packages[self._package]}
        if processor not in names and optional:
            return None
        if processor not in names:
            raise ValueError(f"{self._root}: the package {self._package!r} has no model for {processor!r}")
        return self._file(processor, names[processor])

    def beside(self, processor: str, model: Path) -> dict[str, Path]:
        """Return what a processor's file needs, by kind: "pretrain", "forward_charlm", "backward_charlm"."""
        known = self._about.get(processor, {}).get(model.stem)
        if known is None:
            found = {kind: self._only(kind, optional=True) for kind in _BESIDE}
            return {kind: path for kind, path in found.items() if path is not None}
        return {each["model"]: self._file(each["model"], each["package"]) for each in known.get("dependencies", [])}

    def _file(self, kind: str, name: str) -> Path:
        path = self._root / kind / f"{name}.pt"
        if not path.is_file():
            raise ValueError(f"no such file: {path}")
        return path

    def _only(self, kind: str, *, optional: bool) -> Path | None:
        found = sorted((self._root / kind).glob("*.pt"))
        if len(found) == 1:
            return found[0]
        if not found and optional:
            return None
        if not found:
            raise ValueError(f"no such file: {self._root / kind / '*.pt'}")
        names = ", ".join(path.name for path in found)
        raise ValueError(f"{self._root / kind} has several files ({names}), and no {_INDEX} that says which to take")


def stanza_files(
    processor: str, *, model: str, lang: str, package: str, tokenizer: str, pretokenized: bool
) -> dict[str, Path]:
    """Return files by Stanza's names for them: {"pos_model_path": ..., "pos_pretrain_path": ..., ...}.

    ``model`` is a folder of Stanza's models, or a file: the processor's own. A file that is in such a folder, as
    LANGUAGE/PROCESSOR/NAME.pt, finds the others there. ``tokenizer``: a file instead of the folder's. Raises ValueError
    if a file is missing; it names the file.
    """
    path = local_path(model)
    if path is None:
        raise ValueError(f"no such file or folder: {model!r}")
    if path.is_dir():
        folder: StanzaFolder | None = StanzaFolder(path, lang, package)
    else:
        inside = path.absolute().parts[-3:-1] == (lang, processor)
        folder = StanzaFolder(path.absolute().parents[2], lang, package) if inside else None
    found: dict[str, Path] = {}
    if not pretokenized:
        found["tokenize_model_path"] = _tokenizer(tokenizer, folder)
        found |= _beside("tokenize", found["tokenize_model_path"], folder)
        expander = folder.model("mwt", optional=True) if folder else None
        if expander:
            found["mwt_model_path"] = expander
    own = path if folder is None or path.is_file() else folder.model(processor)
    assert own is not None
    found[f"{processor}_model_path"] = own
    return found | _beside(processor, own, folder)


def _tokenizer(given: str, folder: StanzaFolder | None) -> Path:
    path = local_path(given)
    if path is None and given:
        raise ValueError(f"no such file: {given!r}")
    if path is None and folder:
        path = folder.model("tokenize")
    if path is None:
        raise ValueError("a tagger in a file also needs tokenizer='FILE', or pretokenized=true")
    return path


def _beside(processor: str, model: Path, folder: StanzaFolder | None) -> dict[str, Path]:
    return (
        {f"{processor}_{kind}_path": path for kind, path in folder.beside(processor, model).items()} if folder else {}
    )


def _index(root: Path) -> dict[str, Any]:
    path = root / _INDEX
    if not path.is_file():
        return {}
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, mtime: int, size: int) -> dict[str, Any]:  # noqa: ARG001 - the state is part of the cache's key
    try:
        index = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(index, dict):
        raise ValueError(f"{path} is not an object of languages")  # noqa: TRY004 - of a file, not of an argument
    return index


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
        from wdsflow.memory.batching.ceiling import batches

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
