"""A sample as scores see it.

Nearly all samples take a fast path: one image, one short caption.
"""

from collections.abc import Callable

from wdsflow.filtering.predicates.values import Value
from wdsflow.images.header import ImageHeader
from wdsflow.images.image_header import read_header
from wdsflow.stages.scores.base import HeaderScore, Score, TextScore
from wdsflow.stages.scores.sample_view import View, ViewOptions

from .tar_fields import TarFields

# Bytes of an image; nearly all headers fit.
_HEADER_BYTES = 4096
# Formats for which one read of the first bytes is enough.
_PLAIN = frozenset(("jpeg", "png", "webp"))
# Bytes of a caption; longer ones take the general path.
_SHORT_CAPTION = 4096

# The only image and the only caption of a sample; None: use the general path.
Chosen = tuple[str | None, str | None]


class ShardView(View):
    """A ``View`` with a fast path for nearly all samples: one image, one short caption.

    The result is the same; all other samples take the general path.
    """

    __slots__ = ("_caption", "_chosen", "_header", "_samples", "members")

    def __init__(
        self, fields: TarFields, choice: Chosen, options: ViewOptions, key: str, url: str
    ) -> None:
        super().__init__(fields, options, key=key, url=url)
        self._chosen, self._samples = choice, fields.samples
        # Those of the tar, before stages.
        self.members = fields.rows
        self._header: ImageHeader | None = None
        self._caption: str | None = None

    def plain_header(self) -> ImageHeader | None:
        """Return the header of the only image, None if it needs more than one read."""
        header = self._header
        if header is None and (name := self._chosen[0]) is not None:
            _, size, data, _, _ = self.members[name]
            most = min(size, _HEADER_BYTES)
            head = self._samples.peek_in_memory(data, most)
            header = read_header(head)
            if len(head) < most and (header is None or not header.width or header.format != "jpeg"):
                # In a JPEG, bytes after the size do not matter.
                head = self._samples.peek(data, most)
                header = read_header(head)
            if (
                header is None
                or not header.width
                or header.format not in _PLAIN
                or header.needs > len(head)
            ):
                return None
            self._header = header
            self.bytes_read += len(head)
        return header

    def plain_caption(self, *, in_memory: bool = False) -> str | None:
        """Return the only caption; None if it is long or not plain.

        ``in_memory``: None also if it has to be read.
        """
        text = self._caption
        if text is None and (name := self._chosen[1]) is not None:
            _, size, start, _, _ = self.members[name]
            if size <= _SHORT_CAPTION:
                read = self._samples.peek_in_memory if in_memory else self._samples.peek
                data = read(start, size)
                if size and data.isascii() and len(data) == size and data[0]:
                    self._caption = text = data.decode()
                    self.bytes_read += size
        return text

    def headers(self, image: str = "") -> list[ImageHeader]:
        """Return the images' headers, from their first few KiB, without decoding."""
        header = None if image else self.plain_header()
        return super().headers(image) if header is None else [header]

    def captions(self, caption: str = "") -> list[str]:
        """Return the captions. Never empty."""
        text = None if caption else self.plain_caption()
        return super().captions(caption) if text is None else [text]


def method_of(score: Score) -> Callable[[ShardView], Value]:
    """Return a function that computes a score, with a fast path for nearly all samples."""
    general: Callable[[View], Value] = score.score
    if (
        isinstance(score, HeaderScore)
        and type(score).score is HeaderScore.score
        and not score.image
    ):
        of_header = score.of

        def by_header(view: ShardView) -> Value:
            header = view.plain_header()
            return general(view) if header is None else of_header(header)

        return by_header
    if isinstance(score, TextScore) and type(score).score is TextScore.score and not score.caption:
        of_text = score.of

        def by_caption(view: ShardView) -> Value:
            text = view.plain_caption()
            return general(view) if text is None else of_text(text)

        return by_caption
    return general
