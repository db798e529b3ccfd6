"""The columns of a batch besides the image and the caption: their members, and their values."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.shards.caption_field import parse_json
from wdsflow.shards.shard_names import IMAGES, alternatives
from wdsflow.stages.base import StageError
from wdsflow.stages.caption_sources import Captions, parse_captions
from wdsflow.training.feed_options import FeedError
from wdsflow.training.pixels.image_work import TransformError, seed_generators

_OF_SAMPLE = frozenset({"__key__", "__url__"})
_PICTURES = frozenset(alternatives(IMAGES))

# In an order of columns.
IMAGE, TEXT = -2, -1

Members = Mapping[str, bytes | int]
# Of "__key__", "__url__" and the bytes of each member.
UserMap = Callable[[dict[str, Any]], Any]


class FeedColumn(NamedTuple):
    """A column: the alternatives of its member, or "__key__" or "__url__".

    The first alternative that exists is used.
    """

    name: str
    members: tuple[str, ...]

    @property
    def field(self) -> str:
        """The column as a field."""
        return ";".join(self.members) or self.name

    def value(self, key: str, url: str, members: Members) -> object:
        """Return the column's value for a sample, decoded by the name of its member.

        The value is an int, a str, a JSON object, an array, or bytes. Raises StageError.
        """
        if self.name == "__key__":
            return key
        if self.name == "__url__":
            return url
        name = next(name for name in self.members if name in members)
        data = members[name]
        if isinstance(data, int):
            raise StageError("large-member", f"its {name} has {data:,} bytes")
        return decode_member(name, data)


def decode_member(name: str, data: bytes) -> object:
    """Return a text, integer, JSON or npy member as ``wds.decode()`` does, others as bytes.

    Raises StageError if it is malformed.

    >>> decode_member("cls", b"7"), decode_member("txt", b"a"), decode_member("json", b"[1]"), decode_member("bin", b"b")
    (7, 'a', [1], b'b')
    """
    kind = kind_of(name)
    try:
        if kind == "integer":
            return int(data)
        if kind == "text":
            return data.decode()
        if kind == "json":
            return parse_json(data)
        if kind == "npy":
            import numpy as np

            return np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, RecursionError, EOFError) as error:
        raise StageError(f"not-{kind}", f"its {name} cannot be read: {error}") from error
    return data


@dataclass(frozen=True)
class FeedColumns:
    """What a sample consists of, and the order of its columns in a batch. Picklable.

    ``image``: alternatives of the image's member, none if there is no image. ``order``: IMAGE, TEXT
    and numbers of ``other_columns``. ``names``: of the columns, for batches that are dicts.
    ``map``: makes the whole sample instead; ``order`` is then (0,), and a batch that one column.
    """

    image: tuple[str, ...]
    captions: Captions | None
    other_columns: tuple[FeedColumn, ...] = ()
    order: tuple[int, ...] = (IMAGE, TEXT)
    names: tuple[str, ...] | None = None
    map: UserMap | None = None

    @property
    def needed(self) -> tuple[tuple[str, ...], ...]:
        """Groups of alternative members: a sample needs one of each group.

        The image and the caption are not included.
        """
        return tuple(column.members for column in self.other_columns if column.members)

    @property
    def fields(self) -> str | list[str]:
        """The fields in the order of the columns, or "map"."""
        if self.map is not None:
            return "map"
        special = {IMAGE: ";".join(self.image), TEXT: str(self.captions)}
        return [
            special[number] if number < 0 else self.other_columns[number].field
            for number in self.order
        ]

    def weighted(self, probs: Sequence[float] | None) -> "FeedColumns":
        """Return a copy whose captions are drawn by weights. Raises FeedError."""
        if probs is None:
            return self
        if self.captions is None:
            raise FeedError("caption_probs is given, and fields has no caption")
        return replace(self, captions=self.captions.weighted(probs))

    def at_epoch(self, epoch: int, seed: int) -> "FeedColumns":
        """Return a copy whose random choices are drawn for this epoch."""
        if self.captions is None:
            return self
        return replace(self, captions=self.captions.at_epoch(epoch, seed))

    def other_values(self, key: str, url: str, members: Members) -> tuple[object, ...]:
        """Return the values of ``other_columns``. Raises StageError."""
        return tuple(column.value(key, url, members) for column in self.other_columns)

    def map_sample(self, key: str, url: str, members: Members, seed: int) -> object:
        """Return the result of the user's ``map`` for a sample, with all generators seeded.

        Raises TransformError, StageError.
        """
        assert self.map is not None
        for name, data in members.items():
            if isinstance(data, int):
                raise StageError("large-member", f"its {name} has {data:,} bytes")
        seed_generators(seed)
        try:
            made = self.map({"__key__": key, "__url__": url, **members})
        except MemoryError:
            raise
        except BaseException as error:
            raise TransformError(f"it raised {type(error).__name__}: {error}") from error
        if made is None:
            raise TransformError("it returned None", always=True)
        return made


def parse_fields(fields: Sequence[str] | Mapping[str, str]) -> FeedColumns:
    """Return the columns for fields such as ("jpg;png", "txt|json:caption", "cls", "__key__").

    The first field of pictures is the image; the first of texts, or with a colon, the caption. A
    mapping of names to fields makes batches that are dicts. Raises FeedError.
    """
    names_of_columns: tuple[str, ...] | None = None
    if isinstance(fields, Mapping):
        names_of_columns = tuple(fields)
        fields = list(fields.values())
    elif isinstance(fields, str):
        fields = [fields]
    image: tuple[str, ...] = ()
    captions: Captions | None = None
    more: list[FeedColumn] = []
    order: list[int] = []
    if not fields:
        raise FeedError(
            'fields is empty: name what a batch consists of, such as ("jpg;png;webp", "txt")'
        )
    for field in fields:
        if field in _OF_SAMPLE:
            more.append(FeedColumn(field, ()))
            order.append(len(more) - 1)
            continue
        # Of members; none if the field says where captions are.
        names: tuple[str, ...] = ()
        if ":" not in field and "|" not in field:
            names = tuple(name.lower() for name in alternatives(field))
        if names and not image and _are_pictures(names):
            image, number = names, IMAGE
        elif captions is None and (not names or kind_of(names[0]) == "text"):
            captions, number = parse_captions(field), TEXT
        elif not names:
            raise FeedError(
                f"{field!r} is a second caption in fields: one is tokenized; use map= for more"
            )
        else:
            number = len(more)
            more.append(FeedColumn(field, names))
        order.append(number)
    return FeedColumns(
        image,
        captions,
        tuple(more),
        tuple(order),
        names_of_columns,
    )


def _are_pictures(members: Sequence[str]) -> bool:
    return _PICTURES.issuperset(name.rpartition(".")[2] for name in members)
