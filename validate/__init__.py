"""Prove before training that shards will train.

>>> from wdsflow.validate import check
>>> report = check("shards/{000..042}.tar", readers=["open-clip"])  # doctest: +SKIP
>>> report.ok, report.verdicts, report.findings  # doctest: +SKIP
"""

from .check import check
from .finding import Finding, Repair
from .tracing.trace import trace
from .verdicts.verdict import Verdict

__all__ = ["Finding", "Repair", "Verdict", "check", "trace"]
