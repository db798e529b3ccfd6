"""What has to be so before PyTorch starts, and who else may hold a GPU in this process."""

import os
import sys
from collections.abc import MutableMapping
from typing import Any, NamedTuple

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


class PreparedTorch(NamedTuple):
    """What became of the allocator's setting."""

    changed: bool
    value: str  # what is in force by the environment
    torch_loaded: bool  # then a change may come too late: the setting is read when PyTorch first looks for it

    def message(self) -> str:
        """Return one sentence for people."""
        if not self.changed:
            return f"PyTorch's allocator is set by you: {self.value!r}"
        late = "; PyTorch was loaded before, which may be too late" if self.torch_loaded else ""
        return f"{NAMES[0]} and {NAMES[1]} are set to {self.value!r}{late}"


class Framework(NamedTuple):
    """A framework beside PyTorch that is loaded in this process and may hold a GPU."""

    name: str
    habit: str


def prepare_environment(environ: MutableMapping[str, str] | None = None) -> PreparedTorch:
    """Let PyTorch's allocator grow its segments, against fragmentation, unless the user set it in any way.

    To be called before PyTorch is imported; processes started later inherit it.
    """
    environ = os.environ if environ is None else environ
    loaded = "torch" in sys.modules
    for name in (*NAMES, _HIP):
        if name in environ:
            return PreparedTorch(changed=False, value=environ[name], torch_loaded=loaded)
    environ.update(dict.fromkeys(NAMES, SETTING))
    return PreparedTorch(changed=True, value=SETTING, torch_loaded=loaded)


def expandable(device: str) -> bool | None:
    """Return whether segments on a CUDA device can grow, by those that there are; None if none tells."""
    import torch

    cuda: Any = torch.cuda  # in part without types
    index = torch.device(device).index or 0
    told = [
        segment["is_expandable"]
        for segment in cuda.memory_snapshot()
        if segment.get("device") == index and "is_expandable" in segment
    ]
    return any(told) if told else None


def other_frameworks() -> list[Framework]:
    """Return the frameworks beside PyTorch that this process has loaded and that may hold a GPU."""
    return [Framework(name, habit) for name, habit in _FRAMEWORKS.items() if name in sys.modules]
