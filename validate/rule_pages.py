"""The manual pages of rules, and the list of all of them."""

import inspect

from .finding import Severity
from .rules.kit.base import Rule
from .rules.rule_catalog import RULES, UnknownCode, catalog


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
    requires = f"\n\nNot reported in shards where one of these is: {', '.join(rule.requires)}" if rule.requires else ""
    return f"{rule.code} ({rule.severity}): {rule.title()}\n\n{body.strip()}{requires}\n"


_FAMILIES = {
    "W": "The archive and names",
    "F": "Fields and captions",
    "I": "Images",
    "L": "Several images, interleaved, video and audio",
    "P": "Configuration, forecast, files next to the shards",
}


def reference() -> str:
    """Return all manual pages of wdsflow's own rules as one Markdown page."""
    parts = [
        (
            "# Rules\n\nThe findings of `wdsflow validate`, by code. `wdsflow explain CODE` prints the same page. "
            "The page shows the usual severity.\nLost samples are a warning up to `--max-loss`, and an error beyond it. "
            "If no chosen reader is affected, the finding is info.\n\n`scripts/gen_reference.py` writes this page."
        )
    ]
    for letter, title in _FAMILIES.items():
        family = sorted((rule for code, rule in RULES.items() if code[0] == letter), key=lambda rule: rule.code)
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
    return "`".join(span if index % 2 else span.replace("__", r"\_\_") for index, span in enumerate(spans))


def catalogue() -> list[tuple[str, Severity, str]]:
    """Return code, usual severity and title of every rule, sorted by code."""
    return sorted((code, rule.severity, rule.title()) for code, rule in catalog().items())
