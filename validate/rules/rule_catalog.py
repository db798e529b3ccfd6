"""All rules by code, from this folder and from other distributions; prints their manual pages, and runs them."""

import difflib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import get_origin

from wdsflow.text.words import how_many

from ..finding import ORDER, Finding, Severity
from .kit.base import SHARDS_NAMED, Context, Rule
from .kit.losses import drops, total_lost, with_losses

__all__ = [
    "GROUP",
    "RULES",
    "BadRule",
    "Rule",
    "UnknownCode",
    "catalog",
    "check_codes",
    "run_rules",
]

# No shard has this name.
ANYWHERE = ""
Ignored = list[tuple[Finding, str]]
# Entry points: name = "package.module:ClassName".
GROUP = "wdsflow.rules"


class BadRule(TypeError):
    """An entry point that is not a rule; the message names it and the reason."""


class UnknownCode(LookupError):
    """A code, or prefix of codes, that no rule has; the message suggests the nearest."""

    def __init__(self, code: str, codes: Iterable[str]) -> None:
        near = _nearest(code.strip().upper(), list(codes))
        super().__init__(
            f"no rule has the code {code!r}{f'; did you mean {near}?' if near else ''}"
        )
        self.code = code


def _nearest(code: str, codes: Sequence[str]) -> str:
    """Return the nearest code, "" if none is similar: W006 for W06 and for W0006."""
    number = re.fullmatch(r"([A-Z])0*(\d+)", code)
    padded = f"{number[1]}{int(number[2]):03d}" if number else ""
    if padded in codes:
        return padded
    near = difflib.get_close_matches(code, codes, n=1, cutoff=0.7)
    # The letter names a family.
    return near[0] if near and near[0][0] == code[0] else ""


def _found() -> Iterator[type[Rule]]:
    for file in iter_modules(import_module(__package__).__path__):
        if not file.ispkg:
            module = import_module(f"{__package__}.{file.name}")
            yield from (
                each
                for each in vars(module).values()
                if _is_rule(each) and each.__module__ == module.__name__
            )


def _is_rule(thing: object) -> bool:
    # To Python 3.10 list[int] is a class, too.
    return (
        get_origin(thing) is None
        and isinstance(thing, type)
        and issubclass(thing, Rule)
        and isinstance(getattr(thing, "code", None), str)
    )


_FAMILIES = {
    "W": "The archive and names",
    "F": "Fields and captions",
    "I": "Images",
    "L": "Several images, interleaved, video and audio",
    "P": "Configuration, forecast, files next to the shards",
}


def by_code(rules: Iterable[type[Rule]]) -> dict[str, type[Rule]]:
    """Return rules by code, in order. Raises BadRule if two have the same code: one would hide the other."""
    found: dict[str, type[Rule]] = {}
    for rule in sorted(rules, key=lambda rule: ([*_FAMILIES].index(rule.code[0]), rule.code)):
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
            raise BadRule(
                f"{named}: not a subclass of wdsflow.validate.rules.kit.base.Rule with a code"
            )
        if (other := rules.setdefault(rule.code, rule)) is not rule:
            raise BadRule(
                f"{named}: the code {rule.code} is that of {_place(other)}: give it another, or uninstall "
                f"{point.dist.name if point.dist is not None else 'its package'}"
            )
    return rules


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
    requires = (
        f"\n\nNot reported in shards where one of these is: {', '.join(rule.requires)}"
        if rule.requires
        else ""
    )
    return f"{rule.code} ({rule.severity}): {rule.title()}\n\n{body.strip()}{requires}\n"


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
        family = sorted(
            (rule for code, rule in RULES.items() if code[0] == letter), key=lambda rule: rule.code
        )
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
    return "`".join(
        span if index % 2 else span.replace("__", r"\_\_") for index, span in enumerate(spans)
    )


def catalogue() -> list[tuple[str, Severity, str]]:
    """Return code, usual severity and title of every rule, sorted by code."""
    return sorted((code, rule.severity, rule.title()) for code, rule in catalog().items())


def run_rules(
    context: Context, select: Sequence[str] = (), ignore: Mapping[str, str] | None = None
) -> tuple[list[Finding], Ignored]:
    """Run rules; return their findings, sorted, and the ignored ones with the reason why they are accepted.

    ``select`` and ``ignore`` are codes or their first letters ("W", "W0", "W001"). Only the
    selected rules run, all if there are none; an ignored rule still explains others that depend on
    it. Raises UnknownCode if no rule begins like this.
    """
    rules = catalog()
    chosen = [
        code
        for code in rules
        if not select or any(_begins(code, prefix, rules) for prefix in select)
    ]
    reasons = _reasons(rules, ignore or {})
    found: dict[str, list[Finding]] = {}
    causes_of = {
        code: [cause for cause in rules[code].requires if cause in chosen] for code in chosen
    }
    for code in TopologicalSorter(causes_of).static_order():
        rule = rules[code]()
        causes = [finding for cause in rule.requires for finding in found.get(cause, ())]
        found[code] = without_explained(rule.check(context), causes)
    found = with_losses(found, rules, context, is_all=not select)
    position: dict[str, int] = {
        shard.url: index for index, shard in enumerate(context.evidence.shards)
    }
    findings: list[Finding] = []
    ignored: Ignored = []
    for code in chosen:
        folded = fold(rules[code](), found[code], context)
        if code in reasons:
            ignored += [(finding, reasons[code]) for finding in folded]
        else:
            findings += folded
    last = len(position)
    findings.sort(
        key=lambda item: (ORDER[item.severity], item.code, position.get(item.shard or "", last))
    )
    return findings, ignored


def check_codes(select: Sequence[str], ignore: Mapping[str, str]) -> None:
    """Raise UnknownCode for a code that no rule has, and BadRule for an invalid rule of another distribution."""
    rules = catalog()
    for prefix in select:
        any(_begins(code, prefix, rules) for code in rules)
    _reasons(rules, ignore)


def without_explained(findings: Iterable[Finding], causes: Sequence[Finding]) -> list[Finding]:
    """Leave out findings that a cause in the same shard explains. A finding without a shard matches any shard.

    A finding that is more severe than its cause is kept: an info must not hide an error.
    """
    worst: dict[str | None, int] = {}
    for cause in causes:
        for shard in {cause.shard, ANYWHERE}:
            worst[shard] = min(worst.get(shard, ORDER["info"]), ORDER[cause.severity])

    def explained(finding: Finding) -> bool:
        shards = (ANYWHERE,) if finding.shard is None else (finding.shard, None)
        return any(shard in worst and worst[shard] <= ORDER[finding.severity] for shard in shards)

    return [finding for finding in findings if not explained(finding)]


def fold(rule: Rule, findings: Sequence[Finding], context: Context) -> list[Finding]:
    """Keep the findings of the first shards, the most severe first, and merge those of all others into one."""
    ranked = sorted(findings, key=lambda item: ORDER[item.severity])
    if len(ranked) <= SHARDS_NAMED + 1:
        return ranked
    kept, rest = ranked[:SHARDS_NAMED], ranked[SHARDS_NAMED:]
    total = sum(finding.count for finding in rest)
    shards = len({finding.shard for finding in rest})
    affected = {name for finding in rest for name in finding.readers}
    message = (
        f"{rule.title()}: the same in {how_many(shards, 'more shard')}, {total:,} times in total"
    )
    if lost := drops(context, total_lost(rest)):
        message += f"; {lost}"
    folded = replace(
        rest[0],
        message=message,
        shard=None,
        key=None,
        offset=None,
        count=total,
        rate=None,
        readers=tuple(name for name in context.names() if name in affected),
        repair=rule.fix_of_set(context),
        lost=total_lost(rest),
    )
    return [*kept, folded]


def _reasons(rules: Mapping[str, type[Rule]], ignore: Mapping[str, str]) -> dict[str, str]:
    """Return the reason for each ignored code; the longest matching prefix decides."""
    reasons: dict[str, str] = {}
    for prefix in sorted(ignore, key=len):
        reasons |= {code: ignore[prefix] for code in rules if _begins(code, prefix, rules)}
    return reasons


def _begins(code: str, prefix: str, rules: Iterable[str]) -> bool:
    upper = prefix.strip().upper()
    if not upper or not any(other.startswith(upper) for other in rules):
        raise UnknownCode(prefix, rules)
    return code.startswith(upper)
