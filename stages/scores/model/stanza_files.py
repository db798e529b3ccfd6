"""Stanza's files and networks, loaded once per process and device; captions as sentences for them. No downloads."""

import json
import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from .model_score import local_path, while_unchanged

if TYPE_CHECKING:
    from stanza import Pipeline
    from stanza.models.common.doc import Document, Sentence
    from stanza.models.common.foundation_cache import FoundationCache


# That a tagger may have.
_DEPENDENCIES = ("pretrain", "forward_charlm", "backward_charlm")
_LANGUAGE = re.compile(r"[a-z]{2,8}([-_][a-z0-9]{1,8})*")
_INDEX = "resources.json"


class StanzaFolder:
    """A folder as ``stanza.download(model_dir=...)`` leaves it: LANGUAGE/PROCESSOR/NAME.pt, and resources.json.

    The index lists the files of a ``package`` and the dependencies of a file. Without an index, or if it lacks the
    language, the folder of a processor must have exactly one file. Raises ValueError.
    """

    def __init__(self, root: Path, lang: str, package: str) -> None:
        if not _LANGUAGE.fullmatch(lang):
            raise ValueError(f"{lang!r} is not a language code, such as 'en' or 'zh-hans'")
        path = root / _INDEX
        index = _read(path) if path.is_file() else {}
        lang = index.get(lang, {}).get("alias", lang)
        self._about: Any = index.get(lang, {})
        self._root, self._package = root / lang, package

    def model(self, processor: str, *, optional: bool = False) -> Path | None:
        """Return the file of a processor ("tokenize", "mwt", "pos", "ner"); None if it is missing and ``optional``."""
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

    def dependencies(self, processor: str, model: Path) -> dict[str, Path]:
        """Return the dependencies of a processor's file, by kind: "pretrain", "forward_charlm", "backward_charlm"."""
        known = self._about.get(processor, {}).get(model.stem)
        if known is None:
            found = {kind: self._only(kind, optional=True) for kind in _DEPENDENCIES}
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
    processor: str, model: str, lang: str, package: str, tokenizer: str, pretokenized: bool
) -> dict[str, Path]:
    """Return files by Stanza's names for them: {"pos_model_path": ..., "pos_pretrain_path": ..., ...}.

    ``model`` is a folder of Stanza's models, or the file of the processor. If the file is in such a folder, as
    LANGUAGE/PROCESSOR/NAME.pt, the others are taken from there. ``tokenizer``: a file instead of the folder's. Raises
    ValueError that names a missing file.
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

    def add(name: str, model: Path) -> None:
        found[f"{name}_model_path"] = model
        others = folder.dependencies(name, model) if folder else {}
        found.update({f"{name}_{kind}_path": each for kind, each in others.items()})

    if not pretokenized:
        given = local_path(tokenizer)
        if given is None and tokenizer:
            raise ValueError(f"no such file: {tokenizer!r}")
        given = given or (folder.model("tokenize") if folder else None)
        if given is None:
            raise ValueError("a tagger in a file also needs tokenizer='FILE', or pretokenized=true")
        add("tokenize", given)
        expander = folder.model("mwt", optional=True) if folder else None
        if expander:
            found["mwt_model_path"] = expander
    own = path if folder is None or path.is_file() else folder.model(processor)
    assert own is not None
    add(processor, own)
    return found


@while_unchanged
def _read(path: Path) -> dict[str, Any]:
    try:
        index = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(index, dict):
        raise ValueError(f"{path} is not an object of languages")  # noqa: TRY004 - of a file, not of an argument
    return index


# Of a batch of the tokeniser.
_CHARACTERS, _PARAGRAPHS = 100_000, 256
# Characters.
_REMEMBERED = 2_000_000
_loaded: "WeakValueDictionary[tuple[object, ...], Pipeline]" = WeakValueDictionary()
# Two concurrent loads would take twice the memory.
_lock = threading.Lock()


def load_pipeline(files: Mapping[str, Path], lang: str, device: str, processors: str) -> "Pipeline":
    """Return a ``stanza.Pipeline`` of files, the same object as long as it is referenced.

    ``files``: see ``stanza_files``. Nothing is downloaded: a transformer must be in the user's hub folder.
    """
    key = (tuple(sorted((name, str(path)) for name, path in files.items())), lang, device, processors)
    with _lock:
        pipeline = _loaded.get(key)
        if pipeline is None:
            pipeline = _loaded[key] = _load({name: str(path) for name, path in files.items()}, lang, device, processors)
        return pipeline


def _load(files: dict[str, str], lang: str, device: str, processors: str) -> "Pipeline":
    import stanza

    if odd := [path for path in files.values() if ";" in path]:
        raise ValueError(f"Stanza takes {odd[0]!r} for several files: no name may have a ';'")
    # Otherwise it looks them up in its index.
    if "ner" in processors:
        files = {**{f"ner_{kind}_path": "" for kind in _DEPENDENCIES}, **files}
    with tempfile.TemporaryDirectory(prefix="wdsflow-stanza-") as folder:
        # Not needed: all files are named.
        Path(folder, _INDEX).write_text("{}", "utf-8")
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
    """Return the name of the transformer on which a network is based."""
    import torch

    name: str | None = torch.load(path, map_location="cpu", weights_only=True).get("config", {}).get("bert_model")
    return name


@cache
def _shared(device: str) -> "FoundationCache":  # noqa: ARG001 - networks move shared parts to their device
    """Return the cache of word vectors and language models that the networks of a device share."""
    from stanza.models.common.foundation_cache import FoundationCache

    return FoundationCache(local_files_only=True)


class TagToken(NamedTuple):
    """A token, and the words that it is expanded to; usually itself."""

    text: str
    words: tuple[str, ...]


Sentences = list[list[TagToken]]


class _Remembered:
    """The sentences of recent paragraphs, bounded by their characters."""

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
            oldest, _ = self._sentences.popitem(last=False)
            self._characters -= len(oldest)


_remembered: "WeakKeyDictionary[Pipeline, _Remembered]" = WeakKeyDictionary()


class Tokenizer:
    """Stanza's tokeniser, with its expander of multi-word tokens if there is one.

    A word above the limit is returned unchanged, not as Stanza's ``<UNK>``.
    """

    def __init__(self, files: Mapping[str, Path], lang: str, device: str) -> None:
        own = {name: path for name, path in files.items() if name.startswith(("tokenize_", "mwt_"))}
        processors = "tokenize,mwt" if "mwt_model_path" in own else "tokenize"
        self._pipeline = load_pipeline(own, lang, device, processors)
        with _lock:
            self._remembered = _remembered.setdefault(self._pipeline, _Remembered())

    def sentences(self, texts: Sequence[str], unit: str) -> list[list[list[str]]]:
        """Return the sentences of each text: its ``words`` (expanded tokens) or its ``tokens``.

        Batches of paragraphs are bounded by padded characters. Recent paragraphs are cached: taggers that share a
        tokeniser get the same captions one after the other.
        """
        from wdsflow.memory.batching.runner import batches

        parts = [(at, paragraph) for at, text in enumerate(texts) for paragraph in paragraphs(text)]
        read = {part: [[TagToken(part, (part,))]] for _, part in parts if is_word(part)}
        read |= self._remembered.of(part for _, part in parts)
        new = list(dict.fromkeys(part for _, part in parts if part not in read))
        for batch in batches([len(part) for part in new], _CHARACTERS, _PARAGRAPHS, None):
            some = [new[each] for each in batch]
            for part, document in zip(some, self._pipeline.bulk_process(some), strict=True):
                read[part] = [_written(document, sentence) for sentence in document.sentences]
                self._remembered.add(part, read[part])
        found: list[list[list[str]]] = [[] for _ in texts]
        for at, part in parts:
            for sentence in read[part]:
                own = [(token.text,) if unit == "tokens" else token.words for token in sentence]
                if words := list(chain.from_iterable(own)):
                    found[at].append(words)
        return found


def _written(document: "Document", sentence: "Sentence") -> list[TagToken]:
    tokens = []
    for token in sentence.tokens:
        if token.text == UNKNOWN and token.end_char - token.start_char > LONGEST_WORD:
            text = document.text[token.start_char : token.end_char]
            tokens.append(TagToken(text, (text,)))
        else:
            tokens.append(TagToken(token.text, tuple(word.text for word in token.words)))
    return tokens


# Characters; the bound of Stanza's tokeniser.
LONGEST_WORD = 1_000
LONGEST_CAPTION = 100_000
# Stanza's replacement for a word above its bound.
UNKNOWN = "<UNK>"

Overlong = Literal["split", "refuse"]

_BLANK_LINE = re.compile(r"\n[\s\x80-\x9f]*\n")
_EDGES = re.compile(r"\A[\s\x80-\x9f]+|[\s\x80-\x9f]+\Z")
_LONG_RUN = re.compile(rf"([\x00-\x08\x0e-\x1b!-\x7f]{{{LONGEST_WORD + 1},}})")
# Words that Stanza would treat as padding and the like.
_RESERVED = frozenset({"<PAD>", "<EMPTY>", "<ROOT>"})


class RefusedSentence(NamedTuple):
    """The reason for which a caption is quarantined; see ScoreError."""

    slug: str
    detail: str


def paragraphs(text: str) -> list[str]:
    r"""Return the parts between blank lines, stripped: Stanza processes each separately.

    More than 1,000 ASCII characters without a space are a separate part (see ``is_word``), because Stanza's search for
    addresses takes quadratic time.

    >>> paragraphs(" One. Two. \n \n Three. ")
    ['One. Two.', 'Three.']
    """
    parts = (part for each in _BLANK_LINE.split(text) for part in _LONG_RUN.split(each))
    return [part for each in parts if (part := _EDGES.sub("", each))]


def is_word(paragraph: str) -> bool:
    """Return whether a paragraph is one endless word, which needs no tokeniser."""
    return _LONG_RUN.fullmatch(paragraph) is not None


def split_at_spaces(text: str) -> list[list[str]]:
    r"""Return the words of each line that has any, as Stanza does with ``tokenize_pretokenized``.

    >>> split_at_spaces("A dog .\n\nIt runs .")
    [['A', 'dog', '.'], ['It', 'runs', '.']]
    """
    return [words for line in text.split("\n") if (words := line.split())]


def refusal(sentences: Sequence[Sequence[str]], most_words: int, most_characters: int) -> RefusedSentence | None:
    """Return the reason to quarantine a caption for a long sentence or word; None if it has none."""
    for words in sentences:
        if len(words) > most_words:
            return RefusedSentence("long-sentence", f"a sentence has {len(words):,} words, more than {most_words:,}")
        if (longest := max(map(len, words))) > LONGEST_WORD:
            return RefusedSentence("long-word", f"a word has {longest:,} characters, more than {LONGEST_WORD:,}")
        if len(words) * (longest + 1) >= most_characters:
            about = f"{len(words):,} words, one of {longest:,} characters"
            return RefusedSentence(
                "long-sentence", f"a sentence has {about}: padded to it more than {most_characters:,}"
            )
    return None


def pieces(words: Sequence[str], most_words: int, most_characters: int) -> list[list[str]]:
    """Split a sentence into pieces, in order, each as long as possible.

    A piece has at most ``most_words`` words, and fewer than ``most_characters`` if each word is padded to the longest
    and has a space. Words above 1,000 characters become ``<UNK>``.

    >>> pieces("one two three four five".split(), 2, 1000)
    [['one', 'two'], ['three', 'four'], ['five']]
    """
    made: list[list[str]] = []
    longest = 0
    for each in words:
        word = UNKNOWN if len(each) > LONGEST_WORD or each in _RESERVED else each
        longest = max(longest, len(word))
        size = len(made[-1]) + 1 if made else 0
        if not made or size > most_words or size * (longest + 1) >= most_characters:
            made.append([])
            longest = len(word)
        made[-1].append(word)
    return made
