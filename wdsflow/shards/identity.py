"""What identifies the bytes of a shard."""

from typing import NamedTuple

Mark = int | str | None


class Stored(NamedTuple):
    """What is known of a stored shard without reading it.

    ``mark`` changes with the file: of a local one its time of change in microseconds since 1970; of another the first 16
    characters of base64 of SHA-256 of the ETag without quotes, or of what else the server sends; None if it sends nothing.
    """

    size: int | None
    mark: Mark


class Identity(NamedTuple):
    """Which bytes a shard has."""

    size: int
    sha256: bytes
    mark: Mark
