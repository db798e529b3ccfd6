"""One sample of a tar."""

from wdsflow.shards.tar.plain_entries import Row


class TarSample:
    """Neighbouring members of one key as one range of the tar.

    As in OpenCLIP, a repeated field begins another sample.
    """

    __slots__ = ("end", "fields", "key", "names", "number", "start", "trouble")

    def __init__(self, number: int, key: str, start: int) -> None:
        self.number = number
        self.key = key
        self.start = start
        self.end = start
        # Lower case name -> member.
        self.fields: dict[str, Row] = {}
        # Of the fields, if earlier samples had the same.
        self.names: tuple[str, ...] | None = None
        # A slug if the tar itself is at fault.
        self.trouble = ""
