"""What models of all families share: the files that a name stands for, and facts that one process finds for all."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

LOCAL = "local-dir:"
_CHUNK = 1 << 22
_SETTINGS = (".json", ".model", ".txt", ".jinja")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_STATES = ("optimizer", "scheduler", "scaler", "rng_state", "training_args")  # what trainers leave next to a model


def local_path(name: str) -> Path | None:
    """Return the file or folder that a name points to, None for a name in a hub. Raises ValueError if it is missing.

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


def full_name(model: str) -> str:
    """Return a model's name, with the user's folder expanded."""
    if model.startswith(LOCAL):
        return LOCAL + str(Path(model.removeprefix(LOCAL)).expanduser())
    return model


def source_of(name: str, *, weights: bool = True) -> str:
    """Return a hash of the contents of a local file or folder, otherwise the name itself.

    In a folder, only files that affect outputs count, without its weights if they are not used. A file is read again
    only if its size or time has changed.
    """
    path = local_path(name)
    if path is None:
        return name
    if not path.is_dir():
        return f"xxh3_128 {_digest(path)}"
    import xxhash

    endings = _SETTINGS + _WEIGHTS if weights else _SETTINGS
    files = sorted(each for each in path.iterdir() if each.is_file() and each.name.endswith(endings))
    counted = [each for each in files if not each.name.startswith(_STATES)]
    together = xxhash.xxh3_128()
    for each in counted:
        together.update(f"{each.name}\0{_digest(each)}\n".encode())
    return f"{len(counted)} files, xxh3_128 {together.hexdigest()}"


def named(model: str, pretrained: str) -> str:
    """Return the name of a CLIP, for a folder a hash of its contents; its weights count unless others are given."""
    if not model.startswith(LOCAL):
        return model
    return LOCAL + source_of(model.removeprefix(LOCAL), weights=not pretrained)


def _digest(path: Path) -> str:
    state = path.stat()
    return _hashed(str(path.resolve()), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=256)
def _hashed(path: str, mtime: int, size: int) -> str:  # noqa: ARG001 - the state is part of the cache's key
    import xxhash

    digest = xxhash.xxh3_128()
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class ModelFact(Generic[T]):
    """A fact about a model, by its names: what another process has shared, otherwise what ``find`` returns.

    Decoders with a shared fact need not import the libraries that find it.
    """

    def __init__(self, find: Callable[..., T]) -> None:
        self._find, self._shared = find, dict[tuple[str, ...], T]()

    def __call__(self, *model: str) -> T:
        """Return the fact. Raises what ``find`` raises."""
        return self._shared[model] if model in self._shared else self._find(*model)

    def share(self, fact: T, *model: str) -> None:
        """Keep a fact that another process found."""
        self._shared[model] = fact

    def is_shared(self, *model: str) -> bool:
        """Return whether another process found the fact."""
        return model in self._shared
