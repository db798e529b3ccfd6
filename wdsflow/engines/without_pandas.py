"""Keeps pandas out of processes that only Arrow would load it for: its import takes half a second of processor time."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


def leave_pandas_out() -> None:
    """Let Arrow take pandas as missing where we call it, in a process that is wdsflow's own.

    Arrow imports pandas with the first list that it converts, only to recognise objects of pandas, of which we have
    none. Others can import pandas as always, and ``to_pandas`` and ``from_pandas`` work. But if our list came first,
    ``pa.array`` takes their Series for any sequence: NaN stays NaN. So it is not for processes that train.
    """
    if not any(isinstance(finder, _LeftOut) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LeftOut())


class _LeftOut:
    """A finder that says that there is no pandas, where our code or Arrow asks for it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Leave everything else to the next finder. Raises ModuleNotFoundError."""
        del path, target
        if name == "pandas" and _who_imports().partition(".")[0] == "wdsflow":
            raise ModuleNotFoundError("pandas is left out of this process", name=name)
        return None


def _who_imports() -> str:
    """Return the module that runs the import, on behalf of Arrow or not."""
    frame = sys._getframe(2)  # noqa: SLF001
    while frame.f_back is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(("importlib.", "pyarrow")):
            return module
        frame = frame.f_back
    return ""
