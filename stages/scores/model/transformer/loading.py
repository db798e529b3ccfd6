"""Loads models of transformers from a folder or a hub.

Also loads their configurations, tokenizers and processors.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wdsflow.memory.precision import UsedPrecision

from ..model import Loaded
from ..model_files import local_path

if TYPE_CHECKING:
    import torch


def from_pretrained_arguments(name: str) -> dict[str, str]:
    """Return transformers' arguments for "org/model", "org/model@revision" or a folder.

    >>> from_pretrained_arguments("org/model@0123abc")
    {'pretrained_model_name_or_path': 'org/model', 'revision': '0123abc'}
    """
    path = local_path(name)
    if path is not None:
        return {"pretrained_model_name_or_path": str(path)}
    repository, _at, revision = name.partition("@")
    arguments = {"pretrained_model_name_or_path": repository}
    if revision:
        arguments["revision"] = revision
    return arguments


def load_model(kind: str, name: str, precision: UsedPrecision, device: str) -> Loaded:
    """Return a model of one of transformers' classes, ready to run.

    Code in a repository is never run.

    Raises ValueError if weights are missing: they would be random.
    """
    import transformers

    logs: Any = transformers.utils.logging
    shows_bars = logs.is_progress_bar_enabled()
    # It would break the progress bar of the run.
    logs.disable_progress_bar()
    try:
        model, loading_info = getattr(transformers, kind).from_pretrained(
            **from_pretrained_arguments(name), dtype=_dtype(precision), output_loading_info=True
        )
    finally:
        if shows_bars:
            logs.enable_progress_bar()
    missing = sorted(loading_info["missing_keys"])
    if missing:
        raise ValueError(f"{name!r} is no {kind}: it lacks the weights {', '.join(missing)[:300]}")
    return model.eval().to(device)


def config_of(name: str) -> Any:
    """Return the configuration of a model, read once."""
    return pretrained("AutoConfig", name)


def tokenizer_of(name: str) -> Any:
    """Return the tokenizer of a model, read once."""
    return pretrained("AutoTokenizer", name)


def processor_of(name: str) -> Any:
    """Return the image processor of a model, read once."""
    return pretrained("AutoImageProcessor", name)


@lru_cache(maxsize=48)
def pretrained(kind: str, name: str) -> Any:
    """Return an object of one of transformers' classes, read once."""
    import transformers

    return getattr(transformers, kind).from_pretrained(**from_pretrained_arguments(name))


def _dtype(precision: UsedPrecision) -> "torch.dtype":
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
