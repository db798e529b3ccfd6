"""What a request for a file gets: all of it, a part, or a status alone (RFC 9110, sections 13 and 14)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import ETag
    from aiohttp.typedefs import LooseHeaders
    from aiohttp.web import BaseRequest


@dataclass(frozen=True)
class HttpAnswer:
    """A status, and the bytes of the file from ``start`` to ``stop``; none where the status says so."""

    status: int
    start: int = 0
    stop: int = 0

    def headers(self, size: int, etag: str) -> "LooseHeaders":
        """Return the headers that tell which part this is; ``size``: bytes of the file."""
        found = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        if self.status == 206:
            found["Content-Range"] = f"bytes {self.start}-{self.stop - 1}/{size}"
        elif self.status == 416:
            found["Content-Range"] = f"bytes */{size}"
        return found


def answer_to(request: "BaseRequest", size: int, etag: str) -> HttpAnswer:
    """Return what a request gets of a file. Requests for several parts get the whole file, as servers may do."""
    wanted, known = request.if_match, request.if_none_match
    if wanted is not None and not any(_is_any(each) or (each.value == etag and not each.is_weak) for each in wanted):
        return HttpAnswer(412)
    if known is not None and any(_is_any(each) or each.value == etag for each in known):
        return HttpAnswer(304)
    whole = HttpAnswer(200, 0, size)
    if request.method != "GET" or "Range" not in request.headers:
        return whole
    if request.headers.get("If-Range", f'"{etag}"') != f'"{etag}"':  # also a date: no file has one here
        return whole
    try:
        asked = request.http_range
    except ValueError:
        return whole
    start, stop = asked.start or 0, size if asked.stop is None else min(asked.stop, size)
    if asked.stop is None and request.headers["Range"].partition("=")[2].startswith("-"):
        if not asked.start:
            return HttpAnswer(416)
        start = max(0, size + asked.start)
    return HttpAnswer(206, start, stop) if start < size else HttpAnswer(416)


def _is_any(tag: "ETag") -> bool:
    return tag.value == "*"
