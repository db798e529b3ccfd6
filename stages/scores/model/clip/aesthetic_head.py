"""Heads that rate an embedding: one linear layer, or LAION's five."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..model import Output
from ..model_files import local_path, while_unchanged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

# From an embedding, float32 (d), to its rating.
Head = Callable[[Output], float]
# Indices of the linear layers in LAION's predictor, and whether there is a ReLU between them.
_LAION: dict[tuple[int, ...], bool] = {(0, 2, 4, 6, 7): False, (0, 3, 6, 9, 11): True}


class _Layer(NamedTuple):
    """A linear layer: ``weight`` is an array (outputs, inputs), ``bias`` an array (outputs)."""

    weight: "Numbers"
    bias: "Numbers | None"


def load_head(name: str) -> Head:
    """Return the head in a file. Raises ValueError if it is not a head.

    One linear layer ("weight" and "bias" under any prefix), or five as in LAION's
    improved-aesthetic-predictor.
    """
    path = local_path(name)
    if path is None:
        raise ValueError(f"no such file: {name!r}")
    return _read_head(path)


@while_unchanged
def _read_head(path: Path) -> Head:
    arrays = _arrays(path)
    prefixes = _layer_prefixes(arrays)
    rectified = _is_rectified(prefixes)
    expected = {prefix + part for prefix in prefixes for part in ("weight", "bias")}
    if rectified is None or not arrays.keys() <= expected:
        raise ValueError(
            f"{str(path)!r} is neither a linear head nor LAION's: it has {', '.join(sorted(arrays))[:300]}"
        )
    layers = [_Layer(arrays[prefix + "weight"], arrays.get(prefix + "bias")) for prefix in prefixes]
    outputs = layers[-1].weight.shape[0]
    if outputs != 1:
        raise ValueError(f"{str(path)!r} gives {outputs} numbers, not one")
    return _head(layers, rectified, path)


def _head(layers: list[_Layer], rectified: bool, path: Path) -> Head:
    """Return the function that applies layers in order, with ReLU between them if ``rectified``."""
    import numpy as np

    width = layers[0].weight.shape[-1]

    def head(embedding: Output) -> float:
        if embedding.shape != (width,):
            raise ValueError(
                f"{str(path)!r} is for embeddings of {width} values, these have {len(embedding)}"
            )
        values = embedding.astype(np.float64)
        for number, layer in enumerate(layers):
            values = layer.weight @ values
            if layer.bias is not None:
                values = values + layer.bias
            if rectified and number < len(layers) - 1:
                values = np.maximum(values, 0)
        return float(values[0])

    return head


def _layer_prefixes(arrays: "dict[str, Numbers]") -> list[str]:
    """Return the names of the layers, up to "weight", in the order of the numbers in them."""
    prefixes = sorted(name.removesuffix("weight") for name in arrays if name.endswith("weight"))
    return sorted(prefixes, key=_numbers_in)


def _is_rectified(prefixes: list[str]) -> bool | None:
    """Return whether there is a ReLU between layers; None if they are those of no known head."""
    if len(prefixes) == 1:
        return False
    indices: list[int] = []
    for prefix in prefixes:
        # "layers.2." has the index 2.
        indices += _numbers_in(".".join(prefix.split(".")[-2:-1]))
    return _LAION.get(tuple(indices))


def _numbers_in(name: str) -> list[int]:
    return [int(part) for part in name.split(".") if part.isdigit()]


def _arrays(path: Path) -> "dict[str, Numbers]":
    """Return the file's tensors as arrays of float64. Unpickles only tensors."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        contents: object = load_file(path)
    else:
        import torch

        contents = torch.load(path, map_location="cpu", weights_only=True)
    tensors = contents.get("state_dict", contents) if isinstance(contents, dict) else {}
    arrays: dict[str, Numbers] = {}
    for name, tensor in tensors.items():
        if hasattr(tensor, "double"):
            arrays[name] = tensor.double().numpy()
    return arrays
