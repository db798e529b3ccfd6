"""Time that passes only where a test says so."""

from types import ModuleType

import pytest


class Clock:
    """Stands in the place of the module ``time`` in modules of ours."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        self.now = 1000.0
        for module in modules:
            monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        """Return the seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
