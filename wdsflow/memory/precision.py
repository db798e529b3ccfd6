"""The precision in which a model computes."""

from typing import Literal

UsedPrecision = Literal["fp32", "bf16", "fp16"]
# A score's: "auto" leaves it to the run.
Precision = Literal["auto", "fp32", "bf16", "fp16"]


def used_precision(precision: Precision) -> UsedPrecision:
    """Return the precision in which a score's model runs.

    "auto" is fp32 if no run has decided.
    """
    return "fp32" if precision == "auto" else precision
