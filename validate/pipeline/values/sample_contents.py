"""The contents of samples as they enter a pipeline, as marks: what its output is compared with.

A field has a mark for each form in which a pipeline may pass it on unchanged: its bytes, its text,
the object of a JSON field and, as fields of their own, the values in that object.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from wdsflow.shards.samples.grouping import group_members
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Member, Walk

from .elements import columns_of
from .marks import bytes_mark, mark_of, text_mark

# Field -> marks.
SampleContent = dict[str, list[str]]

# Bytes of a field that is compared as a text.
_MOST_TEXT = 1 << 16
# Bytes of a field that is compared as JSON.
_MOST_JSON = 1 << 20
# Of a JSON field.
_MOST_VALUES = 32
# Of objects in a JSON field.
_MOST_DEPTH = 3
# Of a member: a larger one is not compared.
_MOST_BYTES = 64 << 20


def content_of(sample: Mapping[object, object]) -> SampleContent:
    """Return the content of a sample; names that begin with two underscores are no fields."""
    content: SampleContent = {}
    for name, value in sample.items():
        field = str(name)
        if field.startswith("__"):
            continue
        if isinstance(value, bytes):
            content |= _content_of_bytes(field, value)
        else:
            for column, inner in columns_of(value, f"{field}.").items():
                content[column.rstrip(".")] = [mark_of(inner)]
    return content


def contents_in(url: Shard, *, allow_pipe: bool) -> Iterator[SampleContent]:
    """Yield the contents of the samples of a shard in order.

    It stops at the offset where readers stop. Yields none if the shard is unreadable.
    """
    content: SampleContent = {}
    with suppress(SourceError, OSError), open_source(url, allow_pipe=allow_pipe) as source:
        walk = Walk(source, contents=True)
        for begins_sample, _, field, row in group_members(walk):
            if begins_sample and content:
                yield content
                content = {}
            if Member(*row).size <= _MOST_BYTES:
                content |= _content_of_bytes(field, walk.read(row))
    if content:
        yield content


def _content_of_bytes(field: str, data: bytes) -> SampleContent:
    """Return the forms of a field and, if it is JSON, of the values in it: "json.caption"."""
    forms = [bytes_mark(data)]
    content = {field: forms}
    if len(data) <= _MOST_TEXT:
        with suppress(UnicodeDecodeError):
            forms.append(text_mark(data.decode()))
    if field.lower().endswith("json") and len(data) <= _MOST_JSON:
        with suppress(ValueError, RecursionError):
            value = json.loads(data)
            forms.append(mark_of(value))
            for path, inner in _values_in(value, field, _MOST_DEPTH):
                if len(content) < _MOST_VALUES:
                    content[path] = _forms_of_value(inner)
    return content


def _values_in(value: object, path: str, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the values in an object of a JSON field, with their paths.

    ``depth``: how many more levels of objects are entered.
    """
    if isinstance(value, Mapping) and depth:
        for name, inner in value.items():
            yield from _values_in(inner, f"{path}.{name}", depth - 1)
    elif depth < _MOST_DEPTH:
        yield path, value


def _forms_of_value(value: object) -> list[str]:
    forms = [mark_of(value)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        # Such as several captions, of which a pipeline takes one.
        forms += [mark_of(text) for text in value if isinstance(text, str)]
    return forms
