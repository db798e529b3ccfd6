"""What has to be so before PyTorch starts, and who else may hold a GPU in this process."""

import os
import sys
from collections.abc import MutableMapping
from typing import NamedTuple

SETTING = "expandable_segments:True"
# The second is the old name of the first. Both: one release ignored the new one for CUDA, and later ones may the old.
NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_HIP = "PYTORCH_HIP_ALLOC_CONF"
_FRAMEWORKS = {
    "tensorflow": "takes a whole GPU at its first use unless TF_FORCE_GPU_ALLOW_GROWTH=true is set",
    "jax": "takes three quarters of a GPU at its first use unless XLA_PYTHON_CLIENT_PREALLOCATE=false is set",
    "cupy": "keeps the blocks of its memory pool",
    "paddle": "keeps the blocks of its memory pool",
    "onnxruntime": "keeps the arena of each session that runs on a GPU",
}


class Framework(NamedTuple):
    """A framework beside PyTorch that is loaded in this process and may hold a GPU."""

    name: str
    habit: str


def prepare_environment(environ: MutableMapping[str, str] | None = None) -> None:
    """Let PyTorch's allocator grow its segments, against fragmentation, unless the user set it in any way.

    To be called before PyTorch is imported; processes started later inherit it.
    """
    environ = os.environ if environ is None else environ
    if not any(name in environ for name in (*NAMES, _HIP)):
        environ.update(dict.fromkeys(NAMES, SETTING))


def other_frameworks() -> list[Framework]:
    """Return the frameworks beside PyTorch that this process has loaded and that may hold a GPU."""
    return [Framework(name, habit) for name, habit in _FRAMEWORKS.items() if name in sys.modules]
