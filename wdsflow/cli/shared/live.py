"""Progress of a run while it works."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from wdsflow.text.escape import escape

from .terminal import shard_bars


@contextlib.contextmanager
def progress() -> Iterator[Callable[[int, str], Callable[[Any], None] | None]]:
    """Draw shards, time left, samples per second and drops by term on a terminal (standard error); a bar for each pass."""
    with shard_bars("{task.fields[what]}", "{task.description}") as bars:

        def begin(total: int, what: str) -> Callable[[Any], None] | None:
            if bars is None:
                return None
            task, live = bars.add_task("", total=total, what=what), _Live()
            return lambda result: bars.update(task, advance=1, description=live.add(result))

        yield begin


class _Live:
    """The counts of a run so far."""

    def __init__(self) -> None:
        from collections import Counter
        from time import monotonic

        self._clock, self._begun = monotonic, monotonic()
        self._samples = self._kept = 0
        self._gone: Counter[str] = Counter()

    def add(self, result: Any) -> str:
        """Add a shard; return a line."""
        self._samples += getattr(result, "samples", 0)
        self._kept += getattr(result, "kept", 0)
        self._gone.update(getattr(result, "dropped", {}))
        self._gone.update(getattr(result, "quarantined", {}))
        rate = self._samples / max(self._clock() - self._begun, 1e-3)
        most = ", ".join(f"-{count:,} {escape(what, 40)}" for what, count in self._gone.most_common(3))
        return f"{rate:,.0f} samples/s, kept {self._kept:,}{', ' if most else ''}{most}"
