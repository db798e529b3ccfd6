"""Base of the rules for images that do not decode."""

from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import BAD, BIG, BIG_BAD, BOMB, EMPTY, Part

from ...finding import Repair
from .rule_commands import leave_out
from .rule_loss import LossRule
from .shape_rule import fix_status


def is_image(suffix: str) -> bool:
    """Return whether readers decode a field of that name as an image."""
    return kind_of(suffix) == "image"


class ImageLossRule(LossRule):
    """A rule for images that a decoder refuses."""

    def fixed_part(self, part: Part) -> Part:
        return BAD_IMAGE(part)

    def repair(self, *urls: str) -> Repair:
        return leave_out(urls)


BAD_IMAGE = fix_status(BAD, EMPTY, BIG_BAD, when=is_image)
BOMB_IMAGE = fix_status(BOMB, when=is_image)
BIG_IMAGE = fix_status(BIG, BIG_BAD, when=is_image)
