"""All rules by code: those in the four folders, and those of other distributions."""

from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules

from . import fields, images, tar, training
from .kit.base import Rule

__all__ = ["GROUP", "RULES", "BadRule", "Rule", "catalog"]

GROUP = "wdsflow.rules"  # entry points: name = "package.module:ClassName"


class BadRule(TypeError):
    """An entry point that is not a rule; the message names it and the reason."""


def _found() -> Iterator[type[Rule]]:
    for room in (tar, fields, images, training):
        for file in sorted(each.name for each in iter_modules(room.__path__)):
            module = import_module(f"{room.__name__}.{file}")
            yield from (each for each in vars(module).values() if _is_rule(each) and each.__module__ == module.__name__)


def _is_rule(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Rule) and isinstance(getattr(thing, "code", None), str)


RULES: dict[str, type[Rule]] = {rule.code: rule for rule in _found()}


def catalog() -> dict[str, type[Rule]]:
    """Return all rules by code: those of wdsflow, then those of other distributions.

    Raises:
        BadRule: if an entry point of the group ``wdsflow.rules`` is not a subclass of ``Rule`` with a unique code.
    """
    rules = dict(RULES)
    for point in entry_points(group=GROUP):
        rule = point.load()
        if not _is_rule(rule):
            raise BadRule(
                f"entry point {point.name} = {point.value}: not a subclass of"
                " wdsflow.validate.rules.kit.base.Rule with a code"
            )
        if rules.setdefault(rule.code, rule) is not rule:
            raise BadRule(f"entry point {point.name} = {point.value}: the code {rule.code} is taken")
    return rules
