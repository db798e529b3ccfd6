"""Runs functions of the check in separate processes, several at once.

Memory caps and allocators apply to a whole process.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ..environment import ROOT

# Seconds.
_PATIENCE = 900.0

# A function of a module, and its arguments.
Call = tuple[Callable[..., Any], dict[str, Any]]


def run_at_once(
    calls: Sequence[Call], environment: Mapping[str, str] | None = None, patience: float = _PATIENCE
) -> list[Any]:
    """Return the results of functions, each called in a separate process.

    Raises RuntimeError if one fails.
    """
    with _started(calls, environment, patience) as processes:
        outputs = [process.communicate()[0] for process in processes]
    for process, (function, _) in zip(processes, calls, strict=True):
        if process.returncode:
            raise RuntimeError(_failure(function, process.returncode))
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def results_of(call: Call, patience: float = _PATIENCE) -> Iterator[Any]:
    """Yield the results of a generator that runs in a separate process, as they come.

    Raises RuntimeError if it fails.
    """
    with _started([call], None, patience) as (process,):
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
        if process.wait():
            raise RuntimeError(_failure(call[0], process.returncode))


@contextmanager
def _started(
    calls: Sequence[Call], environment: Mapping[str, str] | None, patience: float
) -> "Iterator[list[subprocess.Popen[str]]]":
    path = os.pathsep.join([str(ROOT), str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, **(environment or {}), "PYTHONPATH": path}
    command = [sys.executable, "-m", "support.gpu_check.process"]
    processes = [
        subprocess.Popen(
            [*command, f"{function.__module__}:{function.__name__}", json.dumps(arguments)],
            stdout=subprocess.PIPE,
            text=True,
            env=variables,
        )
        for function, arguments in calls
    ]
    timer = threading.Timer(max(1.0, min(patience, _PATIENCE)), _end_all, [processes])
    timer.start()
    try:
        yield processes
    finally:
        timer.cancel()
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _end_all(processes: "list[subprocess.Popen[str]]") -> None:
    for process in processes:
        process.kill()


def _failure(function: Callable[..., Any], status: int) -> str:
    return (
        f"{function.__name__} did not end in time"
        if status == -9
        else f"{function.__name__} ended with {status}"
    )


def main(name: str, arguments: str) -> None:
    """Call a function; print each of its results, or the only one, as a line of JSON."""
    from wdsflow.memory.batching.allocator import prepare_environment

    prepare_environment()
    module, _, function = name.partition(":")
    result = getattr(import_module(module), function)(**json.loads(arguments))
    results = result if isinstance(result, Iterator) else [result]
    for item in results:
        print(json.dumps(item), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
