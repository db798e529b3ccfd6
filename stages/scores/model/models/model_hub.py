"""Loading what transformers knows, from a folder or a hub."""

from functools import lru_cache
from typing import Any

from ..model_score import Precision
from .clip_weights import local_path


def where(name: str) -> dict[str, str]:
    """Return transformers' arguments for "org/model", "org/model@revision" or a folder.

    >>> where("org/model@0123abc")
    {'pretrained_model_name_or_path': 'org/model', 'revision': '0123abc'}
    """
    path = local_path(name)
    if path is not None:
        return {"pretrained_model_name_or_path": str(path)}
    name, _at, revision = name.partition("@")
    return {"pretrained_model_name_or_path": name, **({"revision": revision} if revision else {})}


def load_model(kind: str, name: str, precision: Precision, device: str) -> Any:
    """Return a model of one of transformers' classes, ready to run. Code of a repository is never run.

    Raises ValueError if weights are missing: they would be random.
    """
    import torch
    import transformers

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    logs: Any = transformers.utils.logging
    bars = logs.is_progress_bar_enabled()
    logs.disable_progress_bar()  # ours is on the screen
    try:
        model, about = getattr(transformers, kind).from_pretrained(**where(name), dtype=dtype, output_loading_info=True)
    finally:
        if bars:
            logs.enable_progress_bar()
    if missing := sorted(about["missing_keys"]):
        raise ValueError(f"{name!r} is no {kind}: it lacks the weights {', '.join(missing)[:300]}")
    return model.eval().to(device)


@lru_cache(maxsize=16)
def config_of(name: str) -> Any:
    """Return a model's configuration."""
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(**where(name))


@lru_cache(maxsize=16)
def tokenizer_of(name: str) -> Any:
    """Return a model's tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(**where(name))


@lru_cache(maxsize=16)
def processor_of(name: str) -> Any:
    """Return a model's image processor."""
    import transformers

    processors: Any = transformers.AutoImageProcessor
    return processors.from_pretrained(**where(name))
