"""Runs OpenCLIP's own loader in a process of its own, and ends it in time: a starved loader never ends by itself."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROBE = Path(__file__).with_name("openclip_probe.py")
STARTING = 180  # seconds; importing torch on a slow disk, not what is being measured


@dataclass(slots=True)
class Loaded:
    """What came out of the loader."""

    ready: bool = False
    batches: list[tuple[list[int], list[int]]] = field(default_factory=list)  # shapes of images and texts
    seconds: float = 0.0  # from the moment at which the loader stood ready
    errors: str = ""


def load(urls: str, *, samples: int, batch_size: int, workers: int, batches: int, seconds: float) -> Loaded:
    """Ask OpenCLIP's loader for some batches, for at most some seconds after it is ready."""
    arguments = [urls, *(str(number) for number in (samples, batch_size, workers, batches))]
    loaded = Loaded()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, str(PROBE), *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # its workers outlive it when they starve, and must be ended with it
        )
        try:
            _listen(process, loaded, seconds)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        errors.seek(0)
        loaded.errors = errors.read()[-2000:]
    return loaded


def _listen(process: "subprocess.Popen[str]", loaded: Loaded, seconds: float) -> None:
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_forward, args=(process, lines), daemon=True).start()
    start, limit = time.monotonic(), float(STARTING)
    while (left := start + limit - time.monotonic()) > 0:
        try:
            line = lines.get(timeout=left)
        except queue.Empty:
            break
        said: dict[str, Any] = json.loads(line) if line else {"event": "end"}
        if said["event"] == "ready":
            loaded.ready, start, limit = True, time.monotonic(), seconds
        elif said["event"] == "batch":
            loaded.batches.append((said["images"], said["texts"]))
        else:
            break
    loaded.seconds = time.monotonic() - start


def _forward(process: "subprocess.Popen[str]", lines: "queue.Queue[str]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            lines.put(line)
    lines.put("")
