"""Loads the trained model, as any model of OpenCLIP's is loaded."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .recipe import FOLDER, MODEL

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


class TinyClip(NamedTuple):
    """The model in evaluation mode, with its own picture transform and tokenizer."""

    model: "torch.nn.Module"
    preprocess: "Callable[[Any], torch.Tensor]"
    tokenizer: "Callable[[list[str]], torch.Tensor]"


def model_name(folder: Path = FOLDER) -> str:
    """Return the name under which OpenCLIP finds configuration and weights.

    Nothing has to be registered.
    """
    return f"local-dir:{folder / MODEL}"


def load(folder: Path = FOLDER, device: str = "cpu") -> TinyClip:
    """Load the model that is in a folder. Raises FileNotFoundError if none is there."""
    import open_clip

    name = model_name(folder)
    model, _, preprocess = open_clip.create_model_and_transforms(name, device=device)
    return TinyClip(model.eval(), preprocess, open_clip.get_tokenizer(name))
