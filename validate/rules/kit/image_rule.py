"""Base of the rules for images that do not decode."""

from typing import ClassVar

from wdsflow.scan.evidence import BAD, BIG_BAD, EMPTY

from .rule_loss import LossRule


class ImageLossRule(LossRule):
    """A rule for images that a decoder refuses."""

    statuses: ClassVar[tuple[str, ...]] = (BAD, EMPTY, BIG_BAD)
    kinds = ("image",)
    drops_bad = True
