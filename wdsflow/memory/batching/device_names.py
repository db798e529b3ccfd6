"""The devices to use, and what they can compute; no CUDA context is created."""

import glob
import importlib.util
import os
import re
import subprocess
import sys

# NVIDIA, AMD, WSL, Tegra.
_DRIVERS = ("/dev/nvidia*", "/dev/kfd", "/dev/dxg", "/dev/nvhost*", "/dev/nvmap")
_CUDA = re.compile(r"cuda:(0|[1-9]\d{0,3})")
# Compute capability of Ampere.
_FIRST_BF16 = 8.0


def choose_devices(devices: str = "auto") -> list[str]:
    """Return device names.

    "auto" means all visible CUDA devices, or "mps" or "cpu" if there are none. "cuda" means all
    visible CUDA devices.

    A list such as "cuda:0,cuda:2" is returned as it is. Raises ValueError for a device that does
    not exist. It creates no CUDA context, so that processes can still be forked.
    """
    named = [name.strip().lower() for name in devices.split(",")]
    if named == ["cpu"]:
        return named
    cuda, mps = _visible()
    if named == ["auto"]:
        return [f"cuda:{index}" for index in range(cuda)] or (["mps"] if mps else ["cpu"])
    if named == ["cuda"] and cuda:
        return [f"cuda:{index}" for index in range(cuda)]
    for name in named:
        match = _CUDA.fullmatch(name)
        is_cuda = match is not None and int(match[1]) < cuda
        if not (name == "cpu" or (name == "mps" and mps) or is_cuda):
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            because = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
            raise ValueError(
                f"no such device as {name!r}: there are {cuda} CUDA devices{because}{', mps' if mps else ''} and cpu"
            )
    if len(set(named)) < len(named):
        raise ValueError(f"a device is named twice: {devices!r}")
    return named


def _visible() -> tuple[int, bool]:
    # Without a driver there is no device; importing PyTorch takes seconds and 200 MB.
    drivers = (
        sys.platform != "linux"
        or os.environ.get("CUDA_VISIBLE_DEVICES")
        or any(map(glob.glob, _DRIVERS))
    )
    if not drivers or importlib.util.find_spec("torch") is None:
        return 0, False
    import torch

    # By NVML if possible; torch.cuda.is_available() would start CUDA, and a forked child could not
    # use it then.
    return torch.cuda.device_count(), torch.backends.mps.is_available()


def computes_bf16(devices: str) -> bool:
    """Return whether ``devices`` are CUDA devices that compute in bfloat16.

    This needs a compute capability of 8.0 or more.

    All visible GPUs must. NVIDIA's driver tells, through nvidia-smi: PyTorch would create a CUDA
    context to ask. False without that command, as for AMD's GPUs. Raises ValueError for a device
    that does not exist.
    """
    if not all(name.startswith("cuda") for name in choose_devices(devices)):
        return False
    try:
        capabilities = _capabilities()
    except (OSError, subprocess.SubprocessError, ValueError):
        return False
    # Numbers are not looked up: CUDA may count GPUs in another order than nvidia-smi.
    names = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    prefixes = tuple(name for name in names if name)
    visible = [value for uuid, value in capabilities.items() if uuid.startswith(prefixes)]
    if not visible or len(visible) != len(prefixes):
        visible = list(capabilities.values())
    return bool(visible) and min(visible) >= _FIRST_BF16


def _capabilities() -> dict[str, float]:
    """Return the compute capability of each GPU, by its UUID.

    Raises OSError, SubprocessError, ValueError.
    """
    command = ["nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv,noheader"]
    output = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    capabilities: dict[str, float] = {}
    for line in output.splitlines():
        if line.strip():
            uuid, capability = (cell.strip() for cell in line.split(","))
            capabilities[uuid] = float(capability)
    return capabilities
