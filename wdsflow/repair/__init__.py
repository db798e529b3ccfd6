"""Valid shards from damaged ones: members regrouped, junk left out, captions written, every loss reported."""

from typing import TYPE_CHECKING

__all__ = ["OtherRepair", "RepairReport", "repair_shards"]

if TYPE_CHECKING:
    from .repair_record import OtherRepair
    from .repair_report import RepairReport
    from .run_repair import repair_shards
else:
    _MODULES = {"OtherRepair": "repair_record", "RepairReport": "repair_report", "repair_shards": "run_repair"}

    def __getattr__(
        name: str,
    ) -> object:  # each is imported when it is asked for: other modules of this package need less
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
