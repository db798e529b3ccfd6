"""Prove before training that shards will train.

>>> import wdsflow
>>> report = wdsflow.check("shards/{000..042}.tar", readers=["open-clip"])  # doctest: +SKIP
>>> report.ok, report.verdicts, report.findings  # doctest: +SKIP
"""

from .check import check
from .finding import Finding, Repair
from .report.report import Report
from .tracing.trace import Trace, trace
from .verdicts.verdict import Verdict

__all__ = ["Finding", "Repair", "Report", "Trace", "Verdict", "check", "trace"]
