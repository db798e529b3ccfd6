"""OpenCLIP's own loader, in a process of its own that has imported it once."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROBE = Path(__file__).with_name("openclip_probe.py")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came out of the loader in the time that it had."""

    batches: int
    # Shape of the first batch.
    images: list[int]
    texts: list[int]
    seconds: float
    error: str

    def __str__(self) -> str:
        if self.error:
            return f"ends with {self.error}"
        if not self.batches:
            return f"no batch in {self.seconds:.0f} s, no error, no message; it would hang"
        return f"{self.batches} batches in {self.seconds:.1f} s, images {self.images} and texts {self.texts}"


class OpenClip:
    """A process that runs OpenCLIP's loader on request.

    It imports OpenCLIP as soon as it starts.
    """

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, str(PROBE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._version = ""
        # How long a loader may take; 0 until the first, a valid set, has shown how fast the machine
        # is.
        self._limit_s = 0.0

    @property
    def version(self) -> str:
        """OpenCLIP's version. Waits for the import to end."""
        if not self._version:
            self._version = str(self._next_answer()["open_clip"])
        return self._version

    def load(self, arguments: list[str], *, batches: int) -> Loaded:
        """Request some batches from OpenCLIP's training loader, with a time limit.

        The limit is several times the duration of the first set.
        """
        assert self.version
        assert self._process.stdin is not None
        request = {"arguments": arguments, "batches": batches, "seconds": self._limit_s or 60}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        loaded = Loaded(**self._next_answer())
        if not self._limit_s:
            self._limit_s = max(5.0, 4 * loaded.seconds)
        return loaded

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _next_answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        self._errors.seek(0)
        raise SystemExit(f"OpenCLIP's loader could not be started:\n{self._errors.read()[-2000:]}")
