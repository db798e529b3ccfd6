"""Reads the members of a sample, from the bytes that its reference holds or from its shard."""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeAlias

from wdsflow.shards.source.base import SourceError, open_file, read_fully
from wdsflow.stages.base import StageError
from wdsflow.training.sample_tasks import Blob, SampleRef
from wdsflow.training.stalls.loss_tally import MISSING, UNREADABLE

# Bytes between an image and its caption up to which one read replaces two.
_CLOSE = 8192
# A shuffle buffer may spread over thousands of shards.
_MOST_OPEN = 64
_log = logging.getLogger(__name__)

Members = dict[str, bytes | int]
# Returns so many bytes at an offset, fewer at the end. Raises OSError.
_Read: TypeAlias = Callable[[int, int], bytes]


class OpenShards:
    """Keeps files of shards open while they are in use, and 64 beyond."""

    def __init__(self) -> None:
        # Descriptor and number of users.
        self._files: OrderedDict[str, list[int]] = OrderedDict()
        self._lock = threading.Lock()
        self._most = _MOST_OPEN

    @contextmanager
    def use(self, path: str) -> Iterator[int]:
        """Yield a file descriptor for ``os.pread``. Raises ``OSError``."""
        with self._lock:
            file = self._files.get(path)
            if file is None:
                file = self._files[path] = [open_file(path), 0]
            self._files.move_to_end(path)
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
        for shard in list(self._files)[: max(0, len(self._files) - self._most)]:
            if not self._files[shard][1]:
                os.close(self._files.pop(shard)[0])


def read_members(
    ref: SampleRef, shards: OpenShards, largest: int, most: Callable[[str], int]
) -> tuple[bytes, Members]:
    """Return the image of a sample, b"" if it has none, and its other members.

    Args:
        ref: the sample.
        shards: the open shards.
        largest: bytes of an image.
        most: returns the most bytes of another field. Of a larger one its size is returned instead
            of its bytes.

    Raises:
        StageError: the sample cannot be read, or its image is too large.
    """
    image = ref.image
    if image.size > largest:
        raise StageError("huge-image", f"its {image.name} has {image.size:,} bytes")
    if image.data is not None or (not image.name and _is_held(ref)):
        return image.data or b"", {blob.name: _held(blob, most(blob.name)) for blob in ref.texts}
    if image.at < 0 and image.name:
        raise StageError(
            "huge-image", f"its {image.name} has {image.size:,} bytes and cannot be read later"
        )
    try:
        if ref.stored_at:
            return _from_cache(ref, shards, most)
        path = ref.shard.path
        if path is None:
            raise OSError(f"{ref.shard} is no local file")
        with shards.use(path) as fd:
            return _read_members(ref, partial(_read_at, fd), most)
    except OSError as error:
        missing = isinstance(error, SourceError) and error.kind == "missing"
        raise StageError(MISSING if missing else UNREADABLE, str(error)) from error


def _from_cache(
    ref: SampleRef, shards: OpenShards, most: Callable[[str], int]
) -> tuple[bytes, Members]:
    """Return the members of a sample whose shard is or was in a cache.

    Raises OSError, StageError.
    """
    # It cannot be opened if another run with a smaller cache has removed it: nothing is wrong then.
    with suppress(SourceError), shards.use(ref.stored_at) as fd:
        try:
            return _read_members(ref, partial(_read_at, fd), most)
        except (OSError, StageError) as error:
            _remove_damaged(ref, error)
    # Needs fsspec, and hardly ever happens.
    from wdsflow.shards.cache.server_version import open_instead

    with open_instead(ref.shard, ref.stored_at) as source:
        return _read_members(ref, source.read_at, most)


def _remove_damaged(ref: SampleRef, error: Exception) -> None:
    """Remove a cache file that cannot be read or is too short.

    Its shard is then downloaded again.
    """
    _log.warning(
        "wdsflow: %s cannot be read and is removed, its shard is read from %s: %s",
        ref.stored_at,
        ref.shard,
        error,
    )
    with suppress(OSError):
        os.unlink(ref.stored_at)


def _read_members(ref: SampleRef, read: _Read, most: Callable[[str], int]) -> tuple[bytes, Members]:
    """Return the image and the other members of a sample that is not held in memory.

    Raises OSError, StageError.
    """
    image = ref.image
    if len(ref.texts) == 1 and (pair := _read_both(read, image, ref.texts[0])) is not None:
        return pair[0], {ref.texts[0].name: pair[1]}
    members: Members = {}
    for blob in ref.texts:
        members[blob.name] = (
            _read_exactly(read, blob) if blob.size <= most(blob.name) else blob.size
        )
    return _read_exactly(read, image) if image.name else b"", members


def _read_at(fd: int, offset: int, size: int) -> bytes:
    return read_fully(fd, size, offset)


def _is_held(ref: SampleRef) -> bool:
    """Return whether no member of a sample without image is read from its shard."""
    return all(blob.at < 0 or blob.data is not None for blob in ref.texts)


def _held(blob: Blob, most: int) -> bytes | int:
    return blob.size if blob.data is None or blob.size > most else blob.data


def _read_both(read: _Read, image: Blob, text: Blob) -> tuple[bytes, bytes] | None:
    """Read an image and the caption soon after it in one read.

    None if they are far apart or incomplete.
    """
    size = text.at + text.size - image.at
    if not image.name or not image.size <= size <= image.size + _CLOSE:
        return None
    data = read(image.at, size)
    if len(data) < size:
        return None
    return data[: image.size], data[text.at - image.at :]


def _read_exactly(read: _Read, blob: Blob) -> bytes:
    data = read(blob.at, blob.size)
    if len(data) < blob.size:
        raise StageError(
            "truncated",
            f"its {blob.name} ends after {len(data):,} of {blob.size:,} bytes: has the shard changed?",
        )
    return data
