"""Facts about a CLIP of OpenCLIP that need no weights.

These are its name, its preprocessing, and where it is downloaded from.
"""

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ..model import ModelSource
from ..model_fact import ModelFact
from ..model_files import local_path, source_of
from ..pictures.geometry import Geometry

if TYPE_CHECKING:
    from ....imaging.torch_kernel import Kernel

# OpenCLIP's prefixes for models in a folder, and in the hub.
LOCAL = "local-dir:"
_HUB = "hf-hub:"
_CONFIG = "open_clip_config.json"


class Preprocess(TypedDict):
    """OpenCLIP's preprocess_cfg of a model, and ``embed_dim``, the length of an embedding."""

    size: int | tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    resize_mode: str
    fill_color: int
    embed_dim: int


def full_name(model: str) -> str:
    """Return a model's name, with the user's folder expanded."""
    if model.startswith(LOCAL):
        return LOCAL + str(Path(model.removeprefix(LOCAL)).expanduser())
    return model


def hashed_name(model: str, pretrained: str) -> str:
    """Return the name of a CLIP; for a folder, a hash of its contents.

    The hash includes the folder's weights unless others are given.
    """
    if not model.startswith(LOCAL):
        return model
    return LOCAL + source_of(model.removeprefix(LOCAL), weights=not pretrained)


def clip_source(model: str, pretrained: str) -> ModelSource | None:
    """Return the origin of OpenCLIP's download of a model; None if it is in a folder."""
    import open_clip

    folder = "model='local-dir:FOLDER', pretrained=''"
    if model.startswith(_HUB):
        return ModelSource(model.removeprefix(_HUB), folder=folder)
    if not pretrained:
        return None
    config = open_clip.get_pretrained_cfg(_architecture(model), pretrained)
    if config.get("hf_hub"):
        repository, _, _file = config["hf_hub"].rpartition("/")
        return ModelSource(repository, folder=folder)
    return None


@ModelFact
@cache
def clip_preprocess(model: str, pretrained: str) -> Preprocess:
    """Return OpenCLIP's preprocess_cfg of a model, without loading its weights.

    Raises ValueError for an unknown model.
    """
    import open_clip
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    name = full_name(model)
    defaults = asdict(PreprocessCfg())
    preprocess: Preprocess = merge_preprocess_dict(defaults, _preprocess_config(name, pretrained))
    # Names with a prefix may contain slashes.
    config = open_clip.get_model_config(name if ":" in name else _architecture(name))
    if config is None:
        raise ValueError(f"OpenCLIP knows no model {model!r}: see open_clip.list_models()")
    preprocess["size"] = config["vision_cfg"].get("image_size", preprocess["size"])
    preprocess["embed_dim"] = config["embed_dim"]
    return preprocess


def clip_geometry(model: str, pretrained: str) -> Geometry:
    """Return the geometry of a model's evaluation transform."""
    return geometry_of(clip_preprocess(model, pretrained))


def geometry_of(preprocess: Preprocess) -> Geometry:
    """Return the geometry that OpenCLIP makes of a preprocess_cfg.

    Source: ``open_clip.transform.image_transform``.
    """
    configured = preprocess["size"]
    size = (configured, configured) if isinstance(configured, int) else configured
    kernel: Kernel = "bilinear" if preprocess["interpolation"] == "bilinear" else "bicubic"
    mode = preprocess["resize_mode"]
    if mode == "longest":
        return Geometry(size=size, fit="within", kernel=kernel, fill=preprocess["fill_color"])
    if mode == "squash":
        return Geometry(size=size, fit="both", kernel=kernel)
    if size[0] == size[1]:
        return Geometry(size=size, fit="short", kernel=kernel)
    # OpenCLIP's kernel is always bicubic here.
    return Geometry(size=size, fit="cover")


def _preprocess_config(name: str, pretrained: str) -> dict[str, Any]:
    """Return the preprocessing settings of a model.

    They come from its folder, its repository in the hub, or its weights.
    """
    if name.startswith(LOCAL):
        return _read_config(Path(name.removeprefix(LOCAL), _CONFIG))
    if name.startswith(_HUB):
        from open_clip.pretrained import download_pretrained_from_hf

        return _read_config(
            Path(download_pretrained_from_hf(name.removeprefix(_HUB), filename=_CONFIG))
        )
    if pretrained and local_path(pretrained) is None:
        import open_clip

        tag_config: dict[str, Any] = open_clip.get_pretrained_cfg(_architecture(name), pretrained)
        return tag_config
    return {}


def _read_config(path: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(path.read_text("utf-8")).get("preprocess_cfg", {})
    return config


def _architecture(model: str) -> str:
    """Return OpenCLIP's spelling of the name of an architecture."""
    return model.replace("/", "-")
