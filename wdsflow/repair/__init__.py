"""Valid shards from damaged ones.

Members are regrouped, junk is dropped, captions are written, and every loss is reported.
"""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = ["OtherOptions", "RepairPlan", "RepairReport", "repair_shards"]

if TYPE_CHECKING:
    from wdsflow.records.refusals import OtherOptions

    from .repair_plan import RepairPlan
    from .repair_report import RepairReport
    from .run_repair import repair_shards
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "OtherOptions": "wdsflow.records.refusals",
            "RepairPlan": "repair_plan",
            "RepairReport": "repair_report",
            "repair_shards": "run_repair",
        },
    )
