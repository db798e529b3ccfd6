"""The objects of one folder of an object store: listed, read and changed."""

import errno
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from wdsflow.records.unfinished import INSIDE
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.limits import slow_request_reported
from wdsflow.shards.source.remote import filesystem
from wdsflow.shards.source.retries import with_retries
from wdsflow.text.secrets import redact

from .store_lock import StoreLock, read_lock_holder

T = TypeVar("T")

LOCK = f"{INSIDE}/lock"
# s3fs holds each part in memory, and a part has 50 MB.
_PARTS_AT_A_TIME = 2


class StoreError(OSError):
    """An object store did not accept, send or remove an object.

    ``filename``: its url. ``strerror``: the answer of the store.
    """


class StoreObjects:
    """The objects in a folder of an object store, by their names: paths relative to the folder.

    A request is repeated if its fault may pass. Objects are changed only while this run holds the
    lock of the folder. All methods raise StoreError; those that change objects raise Busy, too, if
    another run took over the lock.

    Args:
        url: of the folder.
    """

    def __init__(self, url: str) -> None:
        # For messages, and for the lock, which other runs read.
        self.url = redact(url.rstrip("/"))
        # The kind of the last fault that ended a request; "" without one.
        self.fault = ""
        self._system, root = self._request(lambda: filesystem(url.rstrip("/")))
        self._root = root.rstrip("/")
        if hasattr(self._system, "max_concurrency"):
            self._system.max_concurrency = _PARTS_AT_A_TIME
        self._lock: StoreLock | None = None

    def lock(self) -> None:
        """Lock the folder until ``unlock``. Raises Busy if another run holds the lock."""
        self._lock = StoreLock(self._system, self._key(LOCK), self.url, self._request)

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is None:
            return
        # A connection that failed would fail again, after
        # many tries: the lock becomes stale instead.
        self._lock.close(remove=self.fault != "io")

    def lock_holder(self) -> dict[str, Any] | None:
        """Return who holds the lock, as ``read_lock_holder`` does."""
        return self._request(lambda: read_lock_holder(self._system, self._key(LOCK)))

    def url_of(self, name: str) -> str:
        """Return the url of an object, spelled as fsspec does."""
        url: str = self._system.unstrip_protocol(self._key(name))
        return url

    def sizes(self) -> dict[str, int]:
        """Return the size of each object in bytes.

        Raises FileExistsError if the folder itself is an object.
        """
        self._system.invalidate_cache()
        listing = self._request(lambda: self._system.find(self._root, detail=True))
        if self._root in listing:
            raise FileExistsError(f"{self.url} is an object: choose another place for the output")
        sizes = dict[str, int]()
        for key, info in listing.items():
            name = key.removeprefix(f"{self._root}/")
            if name == key:
                raise StoreError(errno.EIO, f"the store lists {key} in it", self.url)
            if _is_safe(name) and info.get("type") != "directory":
                sizes[name] = int(info.get("size") or 0)
        return sizes

    def download(self, name: str, path: Path) -> None:
        """Write an object to a local file."""
        key = self._key(name)
        self._request(lambda: self._system.get_file(key, str(path)), name)

    def read(self, name: str) -> bytes:
        """Return the contents of an object."""
        data: bytes = self._request(partial(self._system.cat_file, self._key(name)), name)
        return data

    def read_ranges(self, name: str, starts: list[int], ends: list[int]) -> list[bytes]:
        """Return the bytes from each start to its end."""
        keys = [self._key(name)] * len(starts)
        read = partial(self._system.cat_ranges, keys, starts, ends, on_error="raise")
        contents: list[bytes] = self._request(read, name)
        return contents

    def upload(self, path: Path, name: str, size: int) -> None:
        """Write a local file of ``size`` bytes to an object."""
        key = self._key(name)
        self._change(lambda: self._system.put_file(str(path), key), name, size)

    def write(self, name: str, data: bytes) -> None:
        """Write an object."""
        key = self._key(name)
        self._change(lambda: self._system.pipe_file(key, data), name)

    def copy(self, source: str, name: str) -> None:
        """Copy the object ``source``, inside the store."""
        source_key, key = self._key(source), self._key(name)
        self._change(lambda: self._system.cp_file(source_key, key), name)

    def remove(self, name: str) -> None:
        """Remove an object, if it exists."""

        def remove() -> None:
            with suppress(FileNotFoundError):
                self._system.rm_file(self._key(name))

        self._change(remove, name)

    def abort_uploads(self, names: Iterable[str]) -> None:
        """Abort the multipart uploads of objects that a killed run began.

        This applies to stores that keep and list them.
        """
        if not hasattr(self._system, "call_s3"):
            return
        keys = {self._key(name) for name in names}
        bucket, _, prefix = self._root.partition("/")
        if prefix:
            prefix += "/"
        # It only saves space, and many may write but not list uploads.
        with suppress(Exception), slow_request_reported(self.url):
            answer = self._system.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix)
            for upload in answer.get("Uploads") or ():
                if f"{bucket}/{upload['Key']}" in keys:
                    self._abort_upload(bucket, upload)

    def _abort_upload(self, bucket: str, upload: dict[str, Any]) -> None:
        self._system.call_s3(
            "abort_multipart_upload",
            Bucket=bucket,
            Key=upload["Key"],
            UploadId=upload["UploadId"],
        )

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _change(self, change: Callable[[], object], name: str, size: int = 0) -> None:
        """Change the object ``name``, while the lock is held. ``size``: bytes that are sent."""
        assert self._lock is not None
        self._lock.check()
        self._request(change, name, size)

    def _request(self, send: Callable[[], T], name: str = "", size: int = 0) -> T:
        """Return the result of a request.

        Errors name the url of the object ``name``, or of the folder.
        """
        url = f"{self.url}/{name}" if name else self.url
        try:
            return with_retries(send, url, size)
        except SourceError as error:
            self.fault = error.kind
            message = str(error).removeprefix("no such file: ")
            raise StoreError(errno.EIO, message, url) from error


def _is_safe(name: str) -> bool:
    """Return whether the name of an object is a path inside the folder."""
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))
