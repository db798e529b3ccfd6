"""Which weights a name stands for, told without loading or downloading any."""

from functools import lru_cache
from pathlib import Path

LOCAL = "local-dir:"
_CHUNK = 1 << 22
_SETTINGS = (".json", ".model", ".txt", ".jinja")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_STATES = ("optimizer", "scheduler", "scaler", "rng_state", "training_args")  # what trainers leave next to a model


def local_path(name: str) -> Path | None:
    """Return the file or folder that a name points to, None for a name in a hub. Raises ValueError if it is not there.

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
    """Return a model's name with the user's folder spelt out."""
    if model.startswith(LOCAL):
        return LOCAL + str(Path(model.removeprefix(LOCAL)).expanduser())
    return model


def source_of(name: str, *, weights: bool = True) -> str:
    """Return what a name stands for: a hash of the contents where it is a local file or folder, else the name itself.

    Of a folder those files count that decide what a model computes, without its weights where they are not used. Each
    file is read once for a state of it.
    """
    path = local_path(name)
    if path is None:
        return name
    if path.is_dir():
        deciding = sorted(each for each in path.iterdir() if each.is_file() and _decides(each.name, weights))
        import xxhash

        together = xxhash.xxh3_128()
        for each in deciding:
            together.update(f"{each.name}\0{_digest(each)}\n".encode())
        return f"{len(deciding)} files, xxh3_128 {together.hexdigest()}"
    return f"xxh3_128 {_digest(path)}"


def _decides(name: str, weights: bool) -> bool:
    endings = _SETTINGS + _WEIGHTS if weights else _SETTINGS
    return name.endswith(endings) and not name.startswith(_STATES)


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
