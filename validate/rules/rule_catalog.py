"""All rules by code: those in the files of this folder, and those of other distributions."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import get_origin

from .kit.base import Rule

__all__ = ["GROUP", "RULES", "BadRule", "Rule", "UnknownCode", "catalog"]

_NO_RULES = {"rule_catalog", "rule_engine"}  # the other files of this folder
GROUP = "wdsflow.rules"  # entry points: name = "package.module:ClassName"


class BadRule(TypeError):
    """An entry point that is not a rule; the message names it and the reason."""


class UnknownCode(LookupError):
    """A code, or prefix of codes, that no rule has; the message suggests the nearest."""

    def __init__(self, code: str, codes: Iterable[str]) -> None:
        near = _nearest(code.strip().upper(), list(codes))
        super().__init__(f"no rule has the code {code!r}{f'; did you mean {near}?' if near else ''}")
        self.code = code


def _nearest(code: str, codes: Sequence[str]) -> str:
    """Return the nearest code, "" if none is similar: W006 for W06 and for W0006."""
    number = re.fullmatch(r"([A-Z])0*(\d+)", code)
    padded = f"{number[1]}{int(number[2]):03d}" if number else ""
    if padded in codes:
        return padded
    near = difflib.get_close_matches(code, codes, n=1, cutoff=0.7)
    return near[0] if near and near[0][0] == code[0] else ""  # the letter names a family


def _found() -> Iterator[type[Rule]]:
    room = import_module(__package__)
    for file in sorted(each.name for each in iter_modules(room.__path__) if not each.ispkg):
        if file not in _NO_RULES:
            module = import_module(f"{__package__}.{file}")
            yield from (each for each in vars(module).values() if _is_rule(each) and each.__module__ == module.__name__)


def _is_rule(thing: object) -> bool:
    # To Python 3.10 list[int] is a class, too.
    return (
        get_origin(thing) is None
        and isinstance(thing, type)
        and issubclass(thing, Rule)
        and isinstance(getattr(thing, "code", None), str)
    )


_FAMILIES = "WFILP"  # from the archive to the training


def by_code(rules: Iterable[type[Rule]]) -> dict[str, type[Rule]]:
    """Return rules by code, in order. Raises BadRule if two have the same code: one would hide the other."""
    found: dict[str, type[Rule]] = {}
    for rule in sorted(rules, key=lambda rule: (_FAMILIES.index(rule.code[0]), rule.code)):
        if (other := found.setdefault(rule.code, rule)) is not rule:
            raise BadRule(f"{_place(rule)}: the code {rule.code} is that of {_place(other)}")
    return found


def _place(rule: type[Rule]) -> str:
    return f"{rule.__module__}.{rule.__qualname__}"


RULES: dict[str, type[Rule]] = by_code(_found())


def catalog() -> dict[str, type[Rule]]:
    """Return all rules by code: those of wdsflow, then those of other distributions.

    Raises:
        BadRule: if an entry point of the group ``wdsflow.rules`` is not a subclass of ``Rule`` with a unique code.
    """
    rules = dict(RULES)
    for point in entry_points(group=GROUP):
        rule = point.load()
        named = f"entry point {point.name} = {point.value}"
        if not _is_rule(rule):
            raise BadRule(f"{named}: not a subclass of wdsflow.validate.rules.kit.base.Rule with a code")
        if (other := rules.setdefault(rule.code, rule)) is not rule:
            raise BadRule(
                f"{named}: the code {rule.code} is that of {_place(other)}: give it another, or uninstall "
                f"{point.dist.name if point.dist is not None else 'its package'}"
            )
    return rules
