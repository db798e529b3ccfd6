"""Prove before training that shards will train.

>>> import wdsflow
>>> report = wdsflow.check("shards/{000..042}.tar", readers=["open-clip"])  # doctest: +SKIP
>>> report.ok, report.verdicts, report.findings  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = ["Finding", "Repair", "Report", "Trace", "Verdict", "check", "plan_repair", "trace"]

if TYPE_CHECKING:
    from .finding import Finding, Repair
    from .repair_planning import plan_repair
    from .report.report import Report
    from .run_check import check
    from .tracing.trace import Trace, trace
    from .verdicts.verdict import Verdict
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "check": "run_check",
            **dict.fromkeys(("Finding", "Repair"), "finding"),
            "plan_repair": "repair_planning",
            "Report": "report.report",
            **dict.fromkeys(("Trace", "trace"), "tracing.trace"),
            "Verdict": "verdicts.verdict",
        },
    )
