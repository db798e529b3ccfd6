"""Stanza's tokeniser: from captions to the words or tokens of their sentences."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from .caption_sentences import LONGEST_WORD, UNKNOWN, is_word, paragraphs
from .stanza_pipelines import load_pipeline, loading_lock

if TYPE_CHECKING:
    from stanza import Pipeline
    from stanza.models.common.doc import Document, Sentence

# Padded characters, and paragraphs, of a batch.
_CHARACTERS = 100_000
_PARAGRAPHS = 256
# Characters of the paragraphs whose sentences are kept.
CACHED_CHARACTERS = 2_000_000


class TagToken(NamedTuple):
    """A token, and the words that it is expanded to; usually itself."""

    text: str
    words: tuple[str, ...]


Sentences = list[list[TagToken]]


class SentenceCache:
    """The sentences of recent paragraphs, bounded by their characters."""

    def __init__(self) -> None:
        self._sentences: OrderedDict[str, Sentences] = OrderedDict()
        self._characters = 0

    def of(self, paragraphs: Iterable[str]) -> dict[str, Sentences]:
        """Return the paragraphs that are there, with their sentences."""
        return {
            paragraph: self._sentences[paragraph]
            for paragraph in paragraphs
            if paragraph in self._sentences
        }

    def add(self, paragraph: str, sentences: Sentences) -> None:
        """Add a paragraph, and forget the oldest ones above the limit."""
        if paragraph not in self._sentences:
            self._sentences[paragraph] = sentences
            self._characters += len(paragraph)
        while self._characters > CACHED_CHARACTERS:
            oldest, _ = self._sentences.popitem(last=False)
            self._characters -= len(oldest)


_caches: "WeakKeyDictionary[Pipeline, SentenceCache]" = WeakKeyDictionary()


class Tokenizer:
    """Stanza's tokeniser, with its expander of multi-word tokens if there is one.

    A word above the limit is returned unchanged, not as Stanza's ``<UNK>``.
    """

    def __init__(self, files: Mapping[str, Path], lang: str, device: str) -> None:
        tokenizer_files = {
            name: path for name, path in files.items() if name.startswith(("tokenize_", "mwt_"))
        }
        processors = "tokenize,mwt" if "mwt_model_path" in tokenizer_files else "tokenize"
        self._pipeline = load_pipeline(tokenizer_files, lang, device, processors)
        with loading_lock:
            self._cache = _caches.setdefault(self._pipeline, SentenceCache())

    def sentences(self, texts: Sequence[str], unit: str) -> list[list[list[str]]]:
        """Return the sentences of each text: its ``words`` (expanded tokens) or its ``tokens``.

        Batches of paragraphs are bounded by padded characters. Recent paragraphs are cached:
        taggers that share a tokeniser get the same captions one after the other.
        """
        from wdsflow.memory.batching.runner import batches

        paragraphs_of = [paragraphs(text) for text in texts]
        all_paragraphs = list(dict.fromkeys(chain.from_iterable(paragraphs_of)))
        sentences_of = self._cache.of(all_paragraphs)
        for paragraph in all_paragraphs:
            if is_word(paragraph):
                sentences_of[paragraph] = [[TagToken(paragraph, (paragraph,))]]
        new = [paragraph for paragraph in all_paragraphs if paragraph not in sentences_of]
        for positions in batches(
            [len(paragraph) for paragraph in new], _CHARACTERS, _PARAGRAPHS, None
        ):
            batch = [new[position] for position in positions]
            for paragraph, document in zip(batch, self._pipeline.bulk_process(batch), strict=True):
                sentences = [_tokens(document, sentence) for sentence in document.sentences]
                sentences_of[paragraph] = sentences
                self._cache.add(paragraph, sentences)
        words_of_texts: list[list[list[str]]] = []
        for parts in paragraphs_of:
            sentences_of_text = [
                sentence for paragraph in parts for sentence in sentences_of[paragraph]
            ]
            words_of_texts.append(_words(sentences_of_text, unit))
        return words_of_texts


def _words(sentences: Iterable[list[TagToken]], unit: str) -> list[list[str]]:
    """Return the ``words`` or the ``tokens`` of each sentence that has any."""
    words_of_sentences: list[list[str]] = []
    for sentence in sentences:
        words: list[str] = []
        for token in sentence:
            words += [token.text] if unit == "tokens" else token.words
        if words:
            words_of_sentences.append(words)
    return words_of_sentences


def _tokens(document: "Document", sentence: "Sentence") -> list[TagToken]:
    """Return the tokens of a sentence, with the text of those that Stanza replaced."""
    tokens = []
    for token in sentence.tokens:
        if token.text == UNKNOWN and token.end_char - token.start_char > LONGEST_WORD:
            text = document.text[token.start_char : token.end_char]
            tokens.append(TagToken(text, (text,)))
        else:
            tokens.append(TagToken(token.text, tuple(word.text for word in token.words)))
    return tokens
