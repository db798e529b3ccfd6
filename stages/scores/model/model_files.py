"""The local files of a model: paths, and hashes of their contents."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
# Bytes that are read at once.
_CHUNK = 1 << 22
# Endings of the files of a folder that affect outputs.
_SETTINGS = (".json", ".model", ".txt", ".jinja")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
# Files of a trainer next to a model.
_STATES = ("optimizer", "scheduler", "scaler", "rng_state", "training_args")


def local_path(name: str) -> Path | None:
    """Return the file or folder that a name points to, None for a name in a hub.

    Raises ValueError if it is missing.

    Paths begin with "/", "./", "../" or "~", or exist.
    """
    if not name:
        return None
    path = Path(name).expanduser()
    if path.exists():
        return path
    if name.startswith(("/", "./", "../", "~")):
        raise ValueError(f"no such file or folder: {name!r}")
    return None


def source_of(name: str, *, weights: bool = True) -> str:
    """Return a hash of the contents of a local file or folder, otherwise the name itself.

    In a folder, only files that affect outputs count, without its weights if they are not used. A
    file is read again only if its size or time has changed.
    """
    path = local_path(name)
    if path is None:
        return name
    if not path.is_dir():
        return f"xxh3_128 {_digest(path)}"
    import xxhash

    files = _model_files(path, weights=weights)
    combined = xxhash.xxh3_128()
    for file in files:
        combined.update(f"{file.name}\0{_digest(file)}\n".encode())
    return f"{len(files)} files, xxh3_128 {combined.hexdigest()}"


def while_unchanged(read: Callable[[Path], T]) -> Callable[[Path], T]:
    """Return a function that reads a file again only if its size or time has changed."""

    @lru_cache(maxsize=256)
    def cached(path: Path, _state: tuple[int, int]) -> T:
        return read(path)

    def current(path: Path) -> T:
        state = path.stat()
        return cached(path, (state.st_mtime_ns, state.st_size))

    return current


def _model_files(folder: Path, *, weights: bool) -> list[Path]:
    """Return the files of a folder that affect outputs, sorted by name."""
    endings = _SETTINGS + _WEIGHTS if weights else _SETTINGS
    files: list[Path] = []
    for path in sorted(folder.iterdir()):
        is_of_model = path.name.endswith(endings) and not path.name.startswith(_STATES)
        if is_of_model and path.is_file():
            files.append(path)
    return files


@while_unchanged
def _digest(path: Path) -> str:
    """Return the xxh3_128 of a file's contents."""
    import xxhash

    digest = xxhash.xxh3_128()
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
