"""One sample of a shard, as a range of the tar."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wdsflow.shards.tar.plain_entries import Row

NO_END_MARK = "the end mark is missing"
NO_PADDING = "the file ends inside the padding of its last member"
CUT_AFTER_END = "the compressed stream is cut after the end mark"
_HARMLESS = re.compile(f"at byte [0-9,]+ (?:{NO_END_MARK}|{NO_PADDING}|{CUT_AFTER_END})")
_TROUBLE = {
    "tar.truncated-data": "the contents of a member are cut",
    "tar.truncated-header": "the file ends inside a header",
    "tar.bad-header": "a header is damaged",
    "tar.sparse": "a sparse member is not read",
    "tar.cut-stream": "the compressed stream is cut",
    "tar.damaged-stream": "the compressed stream is damaged",
    "tar.no-end-blocks": NO_END_MARK,
    "tar.no-padding": NO_PADDING,
}


def troubles(*, ended: bool) -> dict[str, str]:
    """Return the text of a fault that a walk over a tar found; ``ended``: the last member is before an end mark."""
    return _TROUBLE | ({"tar.cut-stream": CUT_AFTER_END} if ended else {})


def is_harmless(damage: str) -> bool:
    """Return whether nothing is lost by damage that ``damage_of`` found.

    >>> is_harmless("at byte 1,024 the end mark is missing"), is_harmless("at byte 0 a header is damaged")
    (True, False)
    """
    return _HARMLESS.match(damage) is not None


class TarSample:
    """Neighbouring members of one key, by webdataset's rule, as one range of the tar."""

    __slots__ = ("end", "fields", "key", "names", "number", "start", "trouble")

    def __init__(self, number: int, key: str, start: int) -> None:
        self.number, self.key, self.start, self.end = number, key, start, start
        self.fields: dict[str, Row] = {}  # lower case name -> member
        self.names: tuple[str, ...] | None = None  # of the fields, if earlier samples had the same
        self.trouble = ""  # a slug if the tar itself is at fault
