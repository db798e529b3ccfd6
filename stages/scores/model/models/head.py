"""A head on an embedding: one number from a vector."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from .clip.clip_weights import local_path

Head = Callable[[Any], float]
# Places of the linear layers among those of LAION's predictor, without and with ReLU between them.
_LAION: dict[tuple[int, ...], bool] = {(0, 2, 4, 6, 7): False, (0, 3, 6, 9, 11): True}


def load_head(name: str) -> Head:
    """Return the head in a file; read once for a state of it. Raises ValueError for what is none.

    One linear layer ("weight" and "bias" under any prefix), or five as in LAION's improved-aesthetic-predictor.
    """
    path = local_path(name)
    if path is None:
        raise ValueError(f"no such file: {name!r}")
    state = path.stat()
    return _loaded(str(path), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _loaded(path: str, mtime: int, size: int) -> Head:  # noqa: ARG001 - the state is part of the cache's key
    arrays = _arrays(Path(path))
    layers = sorted(name.removesuffix("weight") for name in arrays if name.endswith("weight"))
    layers.sort(key=lambda name: [int(part) for part in name.split(".") if part.isdigit()])
    places = tuple(int(part) for name in layers for part in name.split(".")[-2:-1] if part.isdigit())
    rectified = False if len(layers) == 1 else _LAION.get(places)
    known = set(arrays) <= {name + part for name in layers for part in ("weight", "bias")}
    if rectified is None or not layers or not known:
        raise ValueError(f"{path!r} is neither a linear head nor LAION's: it has {', '.join(sorted(arrays))[:300]}")
    return _head([(arrays[name + "weight"], arrays.get(name + "bias")) for name in layers], rectified, path)


def _head(layers: list[tuple[Any, Any]], rectified: bool, path: str) -> Head:
    import numpy as np

    width = layers[0][0].shape[-1]

    def head(embedding: Any) -> float:
        if embedding.shape != (width,):
            raise ValueError(f"{path!r} is for embeddings of {width} values, these have {len(embedding)}")
        values = embedding.astype(np.float64)
        for place, (weight, bias) in enumerate(layers):
            values = weight @ values + (0 if bias is None else bias)
            if rectified and place < len(layers) - 1:
                values = np.maximum(values, 0)
        return float(values[0])

    if layers[-1][0].shape[0] != 1:
        raise ValueError(f"{path!r} gives {layers[-1][0].shape[0]} numbers, not one")
    return head


def _arrays(path: Path) -> dict[str, Any]:
    """Return the file's tensors as arrays of float64. Never unpickles anything but tensors."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        tensors: Any = load_file(path)
    else:
        import torch

        tensors = torch.load(path, map_location="cpu", weights_only=True)
    tensors = tensors.get("state_dict", tensors) if isinstance(tensors, dict) else {}
    return {name: tensor.double().numpy() for name, tensor in tensors.items() if hasattr(tensor, "double")}
