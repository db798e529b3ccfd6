"""The manual pages of rules: the docstrings of their classes."""

import inspect

from ..rules.kit.base import Rule
from .rule_catalog import FAMILIES, UnknownCode, builtin_rules, catalog

_INTRODUCTION = (
    "# Rules\n\nThe findings of `wdsflow validate`, by code. `wdsflow explain CODE` prints the same page. "
    "The page shows the usual severity.\nLost samples are a warning up to `--max-loss`, and an error beyond it. "
    "If no chosen reader is affected, the finding is info.\n\n`scripts/gen_reference.py` writes this page."
)


def explain(code: str) -> str:
    """Return the manual page of a rule: title, what, why it matters, in practice, fix.

    Raises:
        UnknownCode: if no rule has the code; the message names the nearest one.

    >>> print(explain("W017").splitlines()[0])
    W017 (warning): The shard holds no sample
    """
    rules = catalog()
    rule = rules.get(code.strip().upper())
    if rule is None:
        raise UnknownCode(code, rules)
    return page(rule)


def page(rule: type[Rule]) -> str:
    """Return the manual page of one rule as plain text."""
    _, _, body = inspect.cleandoc(rule.__doc__ or "").partition("\n")
    requires = ""
    if rule.requires:
        codes = ", ".join(rule.requires)
        requires = f"\n\nNot reported in shards where one of these is: {codes}"
    return f"{rule.code} ({rule.severity}): {rule.title()}\n\n{body.strip()}{requires}\n"


def reference() -> str:
    """Return all manual pages of wdsflow's own rules as one Markdown page."""
    parts = [_INTRODUCTION]
    for letter, title in FAMILIES.items():
        # In the order of their codes.
        family = [rule for code, rule in builtin_rules().items() if code[0] == letter]
        if family:
            parts.append(f"## {title}")
            parts += [_markdown(rule) for rule in family]
    return "\n\n".join(parts) + "\n"


def _markdown(rule: type[Rule]) -> str:
    head, _, body = page(rule).partition("\n")
    for part in ("What", "Why it matters", "In practice", "Fix"):
        body = body.replace(f"\n{part}: ", f"\n**{part}:** ", 1)
    title = head.partition(": ")[2]
    text = f"### {rule.code}: {title}\n\nUsual severity: {rule.severity}.\n\n{body.strip()}"
    # Outside of code, words between double underscores would be bold.
    spans = text.split("``")
    for index in range(0, len(spans), 2):
        spans[index] = spans[index].replace("__", r"\_\_")
    return "`".join(spans)
