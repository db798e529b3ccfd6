"""One sample: read it, find its caption, decode and transform the image, tokenize.

Imports torch in functions only, because spawned processes import this module first.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from traceback import extract_tb
from typing import Any, NamedTuple

from wdsflow.shards.caption_field import LARGEST
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError, open_file, read_fully
from wdsflow.stages.base import Dropped, StageError
from wdsflow.stages.tokenize import CaptionFailure, TokenizerError
from wdsflow.training.caption_sources import TokenizedCaptions
from wdsflow.training.columns import Columns
from wdsflow.training.feed_options import SampleError
from wdsflow.training.pixels.image_work import ImageWork, TransformError
from wdsflow.training.sample_tasks import Blob, SampleRef, Task
from wdsflow.training.stalls.field_fixes import at, without
from wdsflow.training.stalls.loss_tally import MISSING, UNREADABLE, FeedLoss

from .decoder_deaths import others_frames
from .slots import shared_memory_notes

_FRAMES = 3  # of a stack that are shown
_CLOSE = 8192  # bytes; one read instead of two
_MOST_OPEN = 64  # files kept open; a shuffle buffer may spread over thousands


class Files:
    """Keeps local shards open while they are in use, and 64 beyond."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, list[int]] = OrderedDict()  # descriptor and number of users
        self._lock = threading.Lock()
        self._most = _MOST_OPEN

    @contextmanager
    def use(self, url: Shard) -> Iterator[int]:
        """Yield a file descriptor for ``os.pread``. Raises ``OSError``."""
        with self._lock:
            file = self._files.get(url)
            if file is None:
                path = url.path
                if path is None:
                    raise OSError(f"{url} is no local file")
                file = self._files[url] = [open_file(path), 0]
            self._files.move_to_end(url)
            file[1] += 1
        try:
            yield file[0]
        finally:
            with self._lock:
                file[1] -= 1
                self._trim()

    def close(self) -> None:
        """Close unused files, and from now on each file after its last use."""
        with self._lock:
            self._most = 0
            self._trim()

    def _trim(self) -> None:
        for url in list(self._files)[: max(0, len(self._files) - self._most)]:
            if not self._files[url][1]:
                os.close(self._files.pop(url)[0])


class MadeSample(NamedTuple):
    """A finished sample of a batch."""

    image: object  # from ``ImageWork.run``
    text: object  # from the tokenizer, first dimension removed
    more: tuple[object, ...] = ()  # other columns


@dataclass(frozen=True)
class SampleWork:
    """Makes samples, one chunk per call. Thread-safe and picklable. ``images``: None if samples have none."""

    images: ImageWork | None
    columns: Columns
    tokens: TokenizedCaptions
    largest: int  # bytes of an encoded image
    processes: str = 'args["workers"]'  # the user's name of the number of decoding processes
    files: Files = field(default_factory=Files, compare=False, repr=False)
    hold: Callable[[int], AbstractContextManager[None]] | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> Any:
        # Open files and a budget of threads stay in their process.
        return SampleWork, (self.images, self.columns, self.tokens, self.largest, self.processes)

    def __call__(self, tasks: Sequence[Task], note: Callable[[int], None]) -> list[MadeSample | FeedLoss]:
        """Make the samples of a chunk. Raises SampleError.

        ``note`` is called with the number of each task before it is begun, and with the number of tasks before the
        captions are tokenized.
        """
        found: list[MadeSample | FeedLoss] = []
        texts: list[str] = []
        made: list[int] = []
        for number, task in enumerate(tasks):
            note(number)
            result = self._make(task)
            if isinstance(result, FeedLoss):
                found.append(result)
                continue
            image, text, more = result
            found.append(MadeSample(image, None, more))
            if self.columns.captions is not None:
                made.append(number)
                texts.append(text)
        if texts:
            note(len(tasks))
            for number, row in zip(made, self._rows(tasks, texts, made), strict=True):
                found[number] = found[number]._replace(text=row)  # type: ignore[call-arg]  # a made sample
        return found

    def _make(self, task: Task) -> tuple[object, str, tuple[object, ...]] | FeedLoss:
        ref, stage, columns = task.ref, "read", self.columns
        try:
            image, members = self._read(ref)
            if columns.map is not None:
                stage = "map"
                return None, "", (columns.mapped(ref.key, ref.shard, members, task.seed),)
            stage = "caption"
            text = "" if columns.captions is None else columns.captions.read(ref.key, members)
            stage = "member"
            more = columns.others(ref.key, ref.shard, members)
            stage = "decode"
            return None if self.images is None else self.images.run(image, task.seed, self.hold), text, more
        except Dropped as drop:
            return FeedLoss(stage, drop.reason, ref.key, ref.shard)
        except StageError as error:
            return FeedLoss(stage, error.slug, ref.key, ref.shard, str(error)[:300])
        except MemoryError as error:
            return FeedLoss(stage, "out-of-memory", ref.key, ref.shard, str(error)[:300])
        except TransformError as error:  # the user's code
            raise self._failed("map" if stage == "map" else "the image transform", [task], error) from error
        except Exception as error:
            raise RuntimeError(
                f"wdsflow failed ({stage}) at {at([task])}: {type(error).__name__}: {error}. This is a fault of wdsflow: "
                "please report it with this traceback"
            ) from error

    def _read(self, ref: SampleRef) -> tuple[bytes, dict[str, bytes | int]]:
        image = ref.image
        if image.size > self.largest:
            raise StageError("huge-image", f"its {image.name} has {image.size:,} bytes")
        if image.data is not None or (
            not image.name and all(blob.at < 0 or blob.data is not None for blob in ref.texts)
        ):
            held = ((blob, blob.data) for blob in ref.texts)
            return image.data or b"", {
                blob.name: blob.size if data is None or blob.size > self._most(blob) else data for blob, data in held
            }
        if image.at < 0 and image.name:
            raise StageError("huge-image", f"its {image.name} has {image.size:,} bytes and cannot be read later")
        try:
            with self.files.use(ref.shard) as fd:
                if len(ref.texts) == 1 and (pair := _together(fd, image, ref.texts[0])) is not None:
                    return pair[0], {ref.texts[0].name: pair[1]}
                texts = {
                    blob.name: _exactly(fd, blob) if blob.size <= self._most(blob) else blob.size for blob in ref.texts
                }
                return _exactly(fd, image) if image.name else b"", texts
        except OSError as error:
            missing = isinstance(error, SourceError) and error.kind == "missing"
            raise StageError(MISSING if missing else UNREADABLE, str(error)) from error

    def _most(self, blob: Blob) -> int:
        """Return the most bytes of a member: those of captions are small."""
        captions = self.columns.captions
        return LARGEST if captions is not None and blob.name in captions.members else self.largest

    def _rows(self, tasks: Sequence[Task], texts: list[str], made: list[int]) -> list[object]:
        try:
            return self.tokens(texts)
        except TokenizerError as error:
            raise SampleError(str(error)) from error.__cause__
        except CaptionFailure as failure:
            cause = failure.__cause__
            assert cause is not None
            of = [index for index, text in zip(made, texts, strict=True) if [text] == list(failure.texts)]
            what = "the tokenizer" if of else "the tokenizer, for several captions at once,"
            raise self._failed(what, [tasks[index] for index in of[:1] or made], cause) from cause

    def _failed(self, what: str, tasks: Sequence[Task], error: BaseException) -> SampleError:
        """Return the failure of the user's code, its location, and how to train without the sample."""
        cause = error.__cause__ if isinstance(error, TransformError) else error
        reason = f"{error}" if isinstance(error, TransformError) else f"it raised {type(error).__name__}: {error}"
        stack = reversed(extract_tb(cause.__traceback__ if cause is not None else None))
        inside = others_frames((frame.name, frame.filename, frame.lineno or 0) for frame in stack)
        lines = [f"{what} failed at {at(tasks)}: {reason}", *(f"  in {frame}" for frame in inside[:_FRAMES])]
        lines += shared_memory_notes(error if cause is None else cause, self.processes)
        if isinstance(error, TransformError) and error.always:
            lines.append("It does the same for a picture of noise: correct the code, no sample is to blame.")
            lines += ["A function without return returns None."] * (reason == "it returned None")
            return SampleError("\n".join(lines))
        fixes = [f"  {fix}" for fix in without(tasks[0])] if len(tasks) == 1 else []
        return SampleError("\n".join([*lines, *(["To fix it, correct the code, or:", *fixes] if fixes else [])]))


@dataclass(frozen=True)
class MixedWork:
    """Makes the samples of several sources, each by its own work."""

    works: tuple[SampleWork, ...]

    @property
    def files(self) -> Files:
        """The open shards, of all sources."""
        return self.works[0].files

    def __call__(self, tasks: Sequence[Task], note: Callable[[int], None]) -> list[MadeSample | FeedLoss]:
        """Make the samples of a chunk, as ``SampleWork`` does."""
        found: list[MadeSample | FeedLoss] = []
        for source, group in groupby(tasks, lambda task: task.stream.source):
            some, begun = list(group), len(found)

            def noted(number: int, begun: int = begun, count: int = len(some)) -> None:
                note(begun + number if number < count else len(tasks))

            found += self.works[source](some, note if len(some) == len(tasks) else noted)
        return found


def _together(fd: int, image: Blob, text: Blob) -> tuple[bytes, bytes] | None:
    """Read an image and the caption soon after it at once; None if they are far apart or incomplete."""
    size = text.at + text.size - image.at
    if not image.name or not image.size <= size <= image.size + _CLOSE:
        return None
    data = read_fully(fd, size, image.at)
    if len(data) < size:
        return None
    return data[: image.size], data[text.at - image.at :]


def _exactly(fd: int, blob: Blob) -> bytes:
    data = read_fully(fd, blob.size, blob.at)
    if len(data) < blob.size:
        raise StageError(
            "truncated", f"its {blob.name} ends after {len(data):,} of {blob.size:,} bytes: has the shard changed?"
        )
    return data
