"""Runs functions of the check in processes of their own, several at once: caps and allocators hold for a process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from ..environment import ROOT

_PATIENCE = 900  # seconds


def run_at_once(
    calls: Sequence[tuple[Callable[..., Any], dict[str, Any]]], environment: Mapping[str, str] | None = None
) -> list[Any]:
    """Return what functions of modules return, each called in a process of its own."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")])
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "support.gpu_check.process",
                f"{do.__module__}:{do.__name__}",
                json.dumps(arguments),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {}), "PYTHONPATH": path},
        )
        for do, arguments in calls
    ]
    try:
        printed = [process.communicate(timeout=_PATIENCE)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (do, _) in zip(processes, calls, strict=True):
        if process.returncode:
            raise RuntimeError(f"{do.__name__} ended with {process.returncode}")
    return [json.loads(each.splitlines()[-1]) for each in printed]


def main(name: str, arguments: str) -> None:
    """Call a function; print what it returns as one line of JSON."""
    from wdsflow.memory.batching.device import prepare_environment

    prepare_environment()
    module, _, function = name.partition(":")
    print(json.dumps(getattr(import_module(module), function)(**json.loads(arguments))))


if __name__ == "__main__":
    main(*sys.argv[1:])
