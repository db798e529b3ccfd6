"""A CLIP with random weights: as slow and as large as a trained one of the same shape."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Tower = Mapping[str, int]


def write_clip(
    folder: Path, *, base: str = "ViT-B-32", vision: Tower | None = None, text: Tower | None = None
) -> str:
    """Write a model with random weights in the geometry of one of OpenCLIP's.

    Returns the name by which OpenCLIP finds it.

    ``vision`` and ``text``: settings of the towers that differ, say ``{"layers": 1}``.
    """
    import open_clip
    import torch

    config: dict[str, Any] = open_clip.get_model_config(base)
    config["vision_cfg"] |= vision or {}
    config["text_cfg"] |= text or {}
    if not (folder / "open_clip_pytorch_model.bin").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(0)
        model = open_clip.model.CLIP(
            **{name: config[name] for name in ("embed_dim", "vision_cfg", "text_cfg")}
        )
        description = {"model_cfg": config, "preprocess_cfg": {}}
        (folder / "open_clip_config.json").write_text(json.dumps(description))
        part = folder / "weights.part"
        torch.save(model.state_dict(), part)
        part.replace(folder / "open_clip_pytorch_model.bin")
    return f"local-dir:{folder}"
