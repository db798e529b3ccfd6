"""All rules by code: those of wdsflow, and those of other distributions."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import get_origin

from wdsflow.installed import entry_points_of

from .. import rules as rule_modules
from ..finding import Severity
from ..rules.kit.base import Rule

# Entry points: name = "package.module:ClassName".
GROUP = "wdsflow.rules"
# The first letter of a code -> the title of its family, in the order of the manual.
FAMILIES = {
    "W": "The archive and names",
    "F": "Fields and captions",
    "I": "Images",
    "L": "Several images, interleaved, video and audio",
    "P": "Configuration, forecast, files next to the shards",
}
# Of two codes, to be suggested for each other.
_LEAST_SIMILARITY = 0.7


class BadRule(TypeError):
    """An entry point that is not a rule; the message names it and the reason."""


class UnknownCode(LookupError):
    """A code, or prefix of codes, that no rule has; the message suggests the nearest."""

    def __init__(self, code: str, codes: Iterable[str]) -> None:
        near = _nearest(code.strip().upper(), list(codes))
        hint = f"; did you mean {near}?" if near else ""
        super().__init__(f"no rule has the code {code!r}{hint}")
        self.code = code


def catalog() -> dict[str, type[Rule]]:
    """Return all rules by code: those of wdsflow, then those of other distributions.

    Raises:
        BadRule: if an entry point of the group ``wdsflow.rules`` is not a subclass of ``Rule`` with
            a unique code.
    """
    rules = dict(builtin_rules())
    for point in entry_points_of(GROUP):
        rule = point.load()
        entry = f"entry point {point.name} = {point.value}"
        if not _is_rule(rule):
            raise BadRule(
                f"{entry}: not a subclass of wdsflow.validate.rules.kit.base.Rule with a code"
            )
        other = rules.setdefault(rule.code, rule)
        if other is not rule:
            distribution = point.dist.name if point.dist is not None else "its package"
            raise BadRule(
                f"{entry}: the code {rule.code} is that of {_full_name(other)}: give it another, or uninstall {distribution}"
            )
    return rules


@cache
def builtin_rules() -> dict[str, type[Rule]]:
    """Return the rules of wdsflow by code. Raises BadRule if two have the same code."""
    return by_code(_rules_of_wdsflow())


def rule_list() -> list[tuple[str, Severity, str]]:
    """Return code, usual severity and title of every rule, sorted by code."""
    return sorted((code, rule.severity, rule.title()) for code, rule in catalog().items())


def check_codes(select: Sequence[str], ignore: Mapping[str, str]) -> None:
    """Raise UnknownCode for a code that no rule has.

    Raises BadRule for an invalid rule of another distribution.
    """
    rules = catalog()
    for prefix in (*select, *ignore):
        codes_with_prefix(prefix, rules)


def codes_with_prefix(prefix: str, rules: Iterable[str]) -> list[str]:
    """Return the codes that begin with a prefix, such as W00. Raises UnknownCode if none does."""
    upper = prefix.strip().upper()
    codes = [code for code in rules if upper and code.startswith(upper)]
    if not codes:
        raise UnknownCode(prefix, rules)
    return codes


def by_code(rules: Iterable[type[Rule]]) -> dict[str, type[Rule]]:
    """Return rules by code, in order.

    Raises BadRule if two rules have the same code, because one would hide the other.
    """
    families = list(FAMILIES)
    rules_by_code: dict[str, type[Rule]] = {}
    for rule in sorted(rules, key=lambda rule: (families.index(rule.code[0]), rule.code)):
        other = rules_by_code.setdefault(rule.code, rule)
        if other is not rule:
            raise BadRule(
                f"{_full_name(rule)}: the code {rule.code} is that of {_full_name(other)}"
            )
    return rules_by_code


def _nearest(code: str, codes: Sequence[str]) -> str:
    """Return the nearest code, "" if none is similar: W006 for W06 and for W0006."""
    number = re.fullmatch(r"([A-Z])0*(\d+)", code)
    padded = f"{number[1]}{int(number[2]):03d}" if number else ""
    if padded in codes:
        return padded
    near = difflib.get_close_matches(code, codes, n=1, cutoff=_LEAST_SIMILARITY)
    # The letter names a family.
    return near[0] if near and near[0][0] == code[0] else ""


def _rules_of_wdsflow() -> Iterator[type[Rule]]:
    """Yield the rules that the modules of ``validate/rules`` define."""
    for file in iter_modules(rule_modules.__path__):
        if file.ispkg:
            continue
        module = import_module(f"{rule_modules.__name__}.{file.name}")
        for value in vars(module).values():
            if _is_rule(value) and value.__module__ == module.__name__:
                yield value


def _is_rule(thing: object) -> bool:
    """Return whether an object is a rule with a code; base classes have none."""
    # To Python 3.10 list[int] is a class, too.
    if get_origin(thing) is not None or not isinstance(thing, type):
        return False
    return issubclass(thing, Rule) and isinstance(getattr(thing, "code", None), str)


def _full_name(rule: type[Rule]) -> str:
    return f"{rule.__module__}.{rule.__qualname__}"
