"""Why a folder is refused before anything is written, also where another run works in it."""

import os
import shutil
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import SUFFIXES, output_names
from wdsflow.shards.source.base import place_of
from wdsflow.text.shell import quote_path

from .store_lock import Busy
from .unfinished import INSIDE
from .working_folder import objects, store_of

try:
    import fcntl
except ImportError:
    # No Unix: two runs are not kept apart.
    fcntl = None  # type: ignore[assignment]


class Lock:
    """Holds a file locked until ``close``, or until the last process ends that inherited ``fd``.

    A killed run leaves nothing to clean up. Raises Busy.
    """

    def __init__(self, path: Path, patience: float = 5.0, *, shared: bool = False) -> None:
        self.path = path
        # Workers of a killed run take a moment to notice.
        until = time.monotonic() + patience
        while True:
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            taken = self._take(shared=shared)
            with suppress(FileNotFoundError):
                if taken and os.path.samestat(os.fstat(self.fd), os.stat(path)):
                    return
            # Another run has it, or removed it when it ended.
            os.close(self.fd)
            if not taken:
                if time.monotonic() >= until:
                    raise Busy(f"another run works in {path.parent.parent}; wait for it or stop it")
                time.sleep(0.05)

    def _take(self, *, shared: bool) -> bool:
        if fcntl is None:
            return True
        try:
            fcntl.flock(self.fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A file system without locks: two runs are not kept apart there.
            pass
        return True

    def remove(self) -> None:
        """Remove the file while it is held; a process that waits for it makes a new one."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock."""
        os.close(self.fd)

    def __enter__(self) -> "Lock":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OtherOptions(ValueError):
    """A folder holds shards that were written with other options; ``differences`` names them."""

    def __init__(
        self, folder: Path, did: str, before: Mapping[str, object], now: Mapping[str, object]
    ) -> None:
        self.differences = list(_differences(before, now))
        super().__init__(
            f"{folder} holds shards {did} with other options: {'; '.join(self.differences)}"
        )


def need_folder(folder: Path) -> None:
    """Raise FileExistsError if no folder can be made there: a file has its name, or a link that leads nowhere."""
    for each in (folder, *folder.parents):
        if os.path.isdir(each):
            return
        if os.path.islink(each) and not os.path.exists(each):
            there = os.path.realpath(each)
            create = (
                "" if os.path.islink(there) else f", or create it: mkdir -p {quote_path(there)}"
            )
            raise FileExistsError(
                f"{each} is a link that leads nowhere: choose another folder{create}"
            )
        if each == folder and os.path.lexists(each):
            raise FileExistsError(f"{folder} is a file: choose a folder for the output")


def tidy(folder: Path, scratch: Iterable[Path], *, made: bool) -> None:
    """Remove locks and empty folders, unless another run works in ``folder``; the folder itself if this run ``made`` it."""
    inside = folder / INSIDE
    with suppress(Busy, OSError), Lock(inside / "lock", patience=0) as held:
        for path in scratch:
            shutil.rmtree(path, ignore_errors=True)
        for place, _, _ in os.walk(inside, topdown=False):
            # Not empty.
            with suppress(OSError):
                os.rmdir(place)
        for path in inside.glob("lock*"):
            if path != held.path:
                with suppress(Busy, OSError), Lock(path, patience=0) as lock:
                    lock.remove()
        held.remove()
    # Not empty.
    with suppress(OSError):
        inside.rmdir()
        if made:
            folder.rmdir()


def is_held(path: Path) -> bool:
    """Return whether a process holds a lock, as far as this machine can see."""
    # No such file.
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except (OSError, AttributeError):
            # No locks here.
            return False
        finally:
            os.close(fd)
    return False


def refuse_inputs(urls: Iterable[Shard], paths: Iterable[Path]) -> None:
    """Raise FileExistsError if one of the files that would be written or removed is an input."""
    paths = list(paths)
    urls = [url for url in urls if not url.is_pipe] if paths else []
    store = store_of(paths[0]) if paths else None
    inputs, place = (
        (objects(urls), store.url_of) if store else (set(map(place_of, urls)), os.path.realpath)
    )
    for path in paths if inputs else ():
        if place(path) in inputs:
            raise FileExistsError(f"{path} is an input: choose another folder for the output")


def refuse_company(folder: Path, run: str, ours: Container[str], counts: Container[str]) -> None:
    """Raise FileExistsError if a folder holds shards that are not ``ours``, or one of ``counts``, which others wrote.

    Readers of all shards in the folder would get samples twice, or foreign ones.
    """
    for path in sorted(folder.iterdir()):
        if (path.name.lower().endswith(SUFFIXES) and path.name not in ours) or path.name in counts:
            raise FileExistsError(
                f"{path} exists already, and no {run} wrote it: a reader of the folder would take both;"
                " choose another folder"
            )


def output_paths(urls: Sequence[Shard], folder: Path, *tables: Shard) -> list[Path]:
    """Return the path of the output of each shard. Raises FileExistsError if one is a shard, or one of ``tables``."""
    paths = [folder / name for name in output_names(urls)]
    refuse_inputs([*urls, *tables], paths)
    return paths


def _differences(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    for flag in dict.fromkeys((*old, *new)):
        before, now = _spelled(old.get(flag)), _spelled(new.get(flag))
        if before != now:
            yield f"{flag} was {before}, now it is {now}"


def _spelled(value: object) -> str:
    if isinstance(value, list):
        value = ",".join(map(str, value))
    if value is True:
        return "given"
    return "not given" if value is None or value is False or value == "" else str(value)
