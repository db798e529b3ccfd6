"""The allocator of PyTorch, and other frameworks that hold a GPU."""

import os
import sys
from collections.abc import MutableMapping

SETTING = "expandable_segments:True"
# The second is the old name of the first. Both: one release ignored the new one for CUDA, and later
# ones may the old.
NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_HIP = "PYTORCH_HIP_ALLOC_CONF"
_FRAMEWORKS = {
    "tensorflow": "takes a whole GPU at its first use unless TF_FORCE_GPU_ALLOW_GROWTH=true is set",
    "jax": "takes three quarters of a GPU at its first use unless XLA_PYTHON_CLIENT_PREALLOCATE=false is set",
    "cupy": "keeps the blocks of its memory pool",
    "paddle": "keeps the blocks of its memory pool",
    "onnxruntime": "keeps the arena of each session that runs on a GPU",
}


def prepare_environment(environ: MutableMapping[str, str] | None = None) -> None:
    """Make PyTorch's allocator use expandable segments, which prevents fragmentation.

    Settings of the user are kept.

    Call it before PyTorch is imported; processes started later inherit it.
    """
    environ = os.environ if environ is None else environ
    if not any(name in environ for name in (*NAMES, _HIP)):
        environ.update(dict.fromkeys(NAMES, SETTING))


def other_frameworks() -> dict[str, str]:
    """Return the loaded frameworks other than PyTorch that may hold a GPU, and how they use it."""
    return {name: habit for name, habit in _FRAMEWORKS.items() if name in sys.modules}
