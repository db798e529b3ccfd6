"""A CLIP with random weights: as slow and as large as a trained one of the same shape."""

import json
from pathlib import Path
from typing import Any


def write_clip(folder: Path, *, base: str = "ViT-B-32", vision: int | None = None, text: int | None = None) -> str:
    """Write a model in the geometry of one of OpenCLIP's, and return the name by which OpenCLIP finds it.

    ``vision`` and ``text``: layers of the towers, if not as many as there.
    """
    import open_clip
    import torch

    config: dict[str, Any] = open_clip.get_model_config(base)
    for tower, layers in (("vision_cfg", vision), ("text_cfg", text)):
        if layers is not None:
            config[tower]["layers"] = layers
    if not (folder / "open_clip_pytorch_model.bin").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(0)
        model = open_clip.model.CLIP(**{name: config[name] for name in ("embed_dim", "vision_cfg", "text_cfg")})
        described = {"model_cfg": config, "preprocess_cfg": {}}
        (folder / "open_clip_config.json").write_text(json.dumps(described))
        part = folder / "weights.part"
        torch.save(model.state_dict(), part)
        part.replace(folder / "open_clip_pytorch_model.bin")
    return f"local-dir:{folder}"
