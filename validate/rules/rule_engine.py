"""Runs rules over evidence: causes first, without findings that a cause explains, the most severe first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter

from wdsflow.text.words import how_many

from ..finding import ORDER, Finding
from .kit.base import SHARDS_NAMED, Context, Rule
from .rule_catalog import UnknownCode, catalog

ANYWHERE = ""  # no shard has this name
Ignored = list[tuple[Finding, str]]


def run_rules(
    context: Context, select: Sequence[str] = (), ignore: Mapping[str, str] | None = None
) -> tuple[list[Finding], Ignored]:
    """Run rules; return their findings, sorted, and the ignored ones with the reason why they are accepted.

    ``select`` and ``ignore`` are codes or their first letters ("W", "W0", "W001"). Only the selected rules run, all if there
    are none; an ignored rule still explains others that depend on it. Raises UnknownCode if no rule begins like this.
    """
    rules = catalog()
    chosen = [code for code in rules if not select or any(_begins(code, prefix, rules) for prefix in select)]
    reasons = _reasons(rules, ignore or {})
    found: dict[str, list[Finding]] = {}
    causes_of = {code: [cause for cause in rules[code].requires if cause in chosen] for code in chosen}
    for code in TopologicalSorter(causes_of).static_order():
        rule = rules[code]()
        causes = [finding for cause in rule.requires for finding in found.get(cause, ())]
        found[code] = without_explained(rule.check(context), causes)
    position = {shard.url: index for index, shard in enumerate(context.evidence.shards)}
    findings: list[Finding] = []
    ignored: Ignored = []
    for code in chosen:
        folded = fold(rules[code](), found[code], context)
        if code in reasons:
            ignored += [(finding, reasons[code]) for finding in folded]
        else:
            findings += folded
    last = len(position)
    findings.sort(key=lambda item: (ORDER[item.severity], item.code, position.get(item.shard or "", last)))
    return findings, ignored


def check_codes(select: Sequence[str], ignore: Mapping[str, str]) -> None:
    """Raise UnknownCode or BadRule for codes or rules of other distributions that are wrong, before any work."""
    rules = catalog()
    for prefix in select:
        any(_begins(code, prefix, rules) for code in rules)
    _reasons(rules, ignore)


def without_explained(findings: Iterable[Finding], causes: Sequence[Finding]) -> list[Finding]:
    """Leave out findings that a cause in the same shard explains. A finding without a shard matches any shard.

    A finding that is more severe than its cause stays: a remark must not hide an error.
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
    hurt = {name for finding in rest for name in finding.readers}
    message = f"{rule.title()}: the same in {how_many(shards, 'more shard')}, {total:,} times in total"
    folded = replace(
        rest[0],
        message=message,
        shard=None,
        key=None,
        offset=None,
        count=total,
        rate=None,
        readers=tuple(name for name in context.names() if name in hurt),
        repair=rule.repair(*context.targets()) if rest[0].repair else None,
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
