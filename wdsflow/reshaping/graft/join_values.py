"""What the samples of a shard are joined on, and compared with the rows of the same key."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

from wdsflow.joining.checked_columns import CHECKED_IMAGE
from wdsflow.joining.join_on import JoinOn
from wdsflow.joining.join_text import join_text
from wdsflow.shards.caption_field import look_up, parse_json
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.tar.plain_entries import Row
from wdsflow.text.utf8 import in_utf8

# Ending of the file of a shard.
JOINS = ".joins"
# Bytes of an image.
_CHUNK = 4 << 20
# Of a shard, whose hashes are compared with those of a ledger.
_IMAGES = 16


class JoinValues(NamedTuple):
    """Join values of adjacent samples, damage next to them, and values to check.

    ``checked``: for each sample, a value for each column, or nothing; empty if nothing is checked.
    """

    values: list[str | None]
    damaged: list[int]
    checked: list[list[str | None]]

    @staticmethod
    def read(files: Path) -> Iterator["JoinValues"]:
        """Yield the values of a shard. ``files``: its files, without ending. Raises OSError."""
        import orjson

        with open(files.with_suffix(JOINS), "rb") as lines:
            for line in lines:
                yield JoinValues(*orjson.loads(line))


def join_value(
    samples: Samples, on: JoinOn, scope: str, digits: int
) -> Callable[[TarSample], str | None]:
    """Return the function from a sample to its value.

    ``scope`` precedes its key; ``digits``: hexadecimal digits of the table's hashes.
    """
    if on.kind == "key":
        return lambda sample: scope + in_utf8(sample.key)
    if on.kind == "json":
        return lambda sample: join_text(look_up(_json_of(samples, sample), on.name), "json")
    return lambda sample: _image_digest(samples, sample, on.kind, digits)


def checked_values(samples: Samples, sample: TarSample, columns: Sequence[str]) -> list[str | None]:
    """Return the values of a sample that are compared with those of its row."""
    if columns[0] == CHECKED_IMAGE:
        if sample.number >= _IMAGES:
            return [None]
        return [_image_digest(samples, sample, "xxh3", 32)]
    tree = _json_of(samples, sample)
    return [join_text(look_up(tree, column), column) for column in columns]


def digits_of(values: Sequence[str]) -> int:
    """Return the number of hexadecimal digits of a table's xxh3 hashes: 16 or 32.

    16 if all of these values have 16, otherwise 32.

    >>> digits_of(["00ff00ff00ff00ff"]), digits_of([])
    (16, 32)
    """
    return 16 if values and all(len(value) == 16 for value in values) else 32


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


def _json_of(samples: Samples, sample: TarSample) -> object:
    """Return the content of the json of a sample; None if it has none, or it is invalid."""
    row = sample.fields.get("json")
    if row is None:
        return None
    try:
        return parse_json(samples.read(row))
    except ValueError:
        return None


def _image_digest(samples: Samples, sample: TarSample, kind: str, digits: int) -> str | None:
    """Return the hash of the image, hexadecimal; None if the sample has none."""
    row = _image_of(sample)
    if row is None:
        return None
    digest = _new_digest(kind, digits)
    size = row[1]
    for start in range(0, size, _CHUNK):
        digest.update(samples.read(row, start, _CHUNK))
    return digest.hexdigest()


def _image_of(sample: TarSample) -> Row | None:
    for name in IMAGE_FIELDS:
        if name in sample.fields:
            return sample.fields[name]
    return None


def _new_digest(kind: str, digits: int) -> _Digest:
    from xxhash import xxh3_64, xxh3_128

    if kind == "sha256":
        return sha256()
    return xxh3_64() if digits == 16 else xxh3_128()
