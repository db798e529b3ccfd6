"""A row of a file of JSON lines, as the input of scores."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from wdsflow.filtering.recipe.recipe_identity import digest
from wdsflow.filtering.samples.tar_fields import ShardView
from wdsflow.filtering.shard.staged_samples import Gone
from wdsflow.stages.scores.sample_view import View, ViewOptions
from wdsflow.stages.scores.score_errors import ScoreError
from wdsflow.stages.scores.selection import chosen, parse_images

from .jsonl_rows import TextRow


class RowFields:
    """The fields of a row: "json" is its line, captions are those of its chunks, images and videos are files."""

    def __init__(self, row: TextRow) -> None:
        captions = {name: text.encode("utf-8", "surrogatepass") for name, text in row.captions.items()}
        self._held = {"json": row.line, **captions}
        self._files = {**row.images, **row.videos}

    def __iter__(self) -> Iterator[str]:
        yield from self._held
        yield from self._files

    def __contains__(self, name: object) -> bool:
        return name in self._held or name in self._files

    def size(self, name: str) -> int:
        """Return the size of a field in bytes. Raises ScoreError if its file is missing."""
        if name in self._held:
            return len(self._held[name])
        with _there():
            return os.stat(self._files[name]).st_size

    def state(self, name: str) -> str:
        """Return a hash of path, size and time of change of a field's file. Raises ScoreError if it is missing."""
        if name in self._held:
            return ""
        with _there():
            found = os.stat(self._files[name])
        return digest([self._files[name], found.st_size, found.st_mtime_ns])

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return a part of a field. Raises ScoreError if its file is missing, OSError if the disk fails."""
        if name in self._held:
            return self._held[name][start : start + size]
        with _there():
            file = os.open(self._files[name], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            parts = []
            while size > 0 and (data := os.pread(file, size, start)):
                parts.append(data)
                start, size = start + len(data), size - len(data)
        finally:
            os.close(file)
        return b"".join(parts)


@contextmanager
def _there() -> Iterator[None]:
    """Raise ScoreError if a file is missing."""
    try:
        yield
    except OSError as error:
        raise ScoreError("missing-file", f"{error.strerror}") from None


class RowView(ShardView):
    """A row: a caption for each chunk that has images or videos, each with its own images.

    A row without any has the captions of all its chunks. Fields that a score names are looked up as in tars.
    """

    of_data_juicer: ClassVar[bool] = True

    __slots__ = ("_files", "_row")

    def __init__(self, row: TextRow, options: ViewOptions, url: str) -> None:
        self._files = RowFields(row)
        View.__init__(self, self._files, options, key=row.key, url=url)
        self._row = row
        self._chosen, self._header, self._caption = (None, None), None, None

    def image_names(self, image: str = "") -> tuple[str, ...]:
        """Return all images of the row, in order; ``image`` names some of them."""
        names = tuple(self._row.images)
        return super().image_names(image) if image or not names else names

    def video_names(self, video: str = "") -> tuple[str, ...]:
        """Return all videos of the row, in order; ``video`` names some of them."""
        names = tuple(self._row.videos)
        return super().video_names(video) if video or not names else names

    def state(self, name: str) -> str:
        """Return a hash that changes with a field's file."""
        return self._files.state(name)

    def captions(self, caption: str = "") -> list[str]:
        """Return a caption for each chunk that has images or videos; for all chunks if none has any."""
        chunks = self._row.chunks
        if caption or not chunks:
            return super().captions(caption)
        return [chunk.caption for chunk in chunks if chunk.images or chunk.videos] or [
            chunk.caption for chunk in chunks
        ]

    def pairs(self, caption: str = "", image: str = "") -> list[tuple[str, tuple[str, ...]]]:
        """Return each chunk's caption with the chunk's images."""
        if caption:
            return super().pairs(caption, image)
        found = self._pairs(self._row.images, [chunk.images for chunk in self._row.chunks], image)
        if not found:
            raise ScoreError("no-image", "no chunk of the text has an image")
        return found

    def video_pairs(self, caption: str = "", video: str = "") -> list[tuple[str, tuple[str, ...]]]:
        """Return each chunk's caption with the chunk's videos."""
        if caption:
            return super().video_pairs(caption, video)
        found = self._pairs(self._row.videos, [chunk.videos for chunk in self._row.chunks], video)
        if not found:
            raise ScoreError("no-video", "no chunk of the text has a video")
        return found

    def _pairs(
        self, files: Iterable[str], by_chunk: Sequence[tuple[int, ...]], some: str
    ) -> list[tuple[str, tuple[str, ...]]]:
        """Return the captions of chunks with their files of one kind; ``some`` names those that count, "" all."""
        among = set(chosen(parse_images(some), self.fields)) if some else None
        names = list(files)
        own = (tuple(names[at] for at in each if among is None or names[at] in among) for each in by_chunk)
        return [(chunk.caption, each) for chunk, each in zip(self._row.chunks, own, strict=True) if each]


class RowViews:
    """Makes the views of a file's rows."""

    def __init__(self, options: ViewOptions, url: str) -> None:
        self._options, self._url = options, url

    def fields_of(self, row: TextRow) -> tuple[str, ...]:
        """Return the names of a row's fields."""
        return row.fields

    def view(self, row: TextRow) -> RowView:
        """Return the view of a row. Raises Gone if it cannot be looked at."""
        if row.problem is not None:
            raise Gone(row.problem.slug, row.problem.detail)
        return RowView(row, self._options, self._url)
