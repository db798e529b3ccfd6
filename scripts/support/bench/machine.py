"""The machine on which the figures were taken."""

import os
import platform
from pathlib import Path

import psutil


def machine() -> dict[str, str | int | float]:
    """Return processor, cores, memory, system and Python of this machine."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (text.split(":", 1)[1].strip() for text in lines if text.startswith("model name")),
        platform.machine(),
    )
