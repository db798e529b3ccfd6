"""Runs pipelines as they are, to compare with what was predicted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class RealRun:
    """Runs pipelines over whole sets, in a process of its own."""

    def __init__(self, module: str = "user_pipelines") -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "real_run.py"), module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, name: str, urls: list[str]) -> dict[str, Any]:
        """Return how many samples came out, and the error that ended the run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"make": name, "urls": urls}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
