"""Runs the rules: findings that others explain are left out, and many of one rule become one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter

from wdsflow.text.words import how_many

from ..finding import ORDER, Finding
from ..rules.kit.base import SHARDS_NAMED, Context, Rule
from ..rules.kit.losses import lost_samples_text, total_lost, with_losses
from .rule_catalog import catalog, codes_with_prefix

# No shard has this name.
ANYWHERE = ""
# With the reason why each is accepted.
Ignored = list[tuple[Finding, str]]


def run_rules(
    context: Context, select: Sequence[str] = (), ignore: Mapping[str, str] | None = None
) -> tuple[list[Finding], Ignored]:
    """Run rules; return their findings, sorted, and the ignored findings.

    An ignored finding comes with the reason why it is accepted.

    ``select`` and ``ignore`` are codes or their first letters ("W", "W0", "W001"). Only the
    selected rules run, all if there are none; an ignored rule still explains others that depend on
    it. Raises UnknownCode if no rule begins like this.
    """
    rules = catalog()
    selected = _selected_codes(rules, select)
    reasons = _ignore_reasons(rules, ignore or {})
    by_code = _findings_by_code(context, rules, selected)
    by_code = with_losses(by_code, rules, context, is_all=not select)
    findings: list[Finding] = []
    ignored: Ignored = []
    for code in selected:
        merged = merge_findings(rules[code](), by_code[code], context)
        if code in reasons:
            ignored += [(finding, reasons[code]) for finding in merged]
        else:
            findings += merged
    order: dict[str, int] = {}
    for index, shard in enumerate(context.evidence.shards):
        order[shard.url] = index
    # A finding about no shard comes last.
    last = len(order)
    findings.sort(
        key=lambda item: (ORDER[item.severity], item.code, order.get(item.shard or "", last))
    )
    return findings, ignored


def _selected_codes(rules: Mapping[str, type[Rule]], select: Sequence[str]) -> list[str]:
    """Return the codes of the rules that run, in the order of the catalog."""
    if not select:
        return list(rules)
    chosen: set[str] = set()
    for prefix in select:
        chosen.update(codes_with_prefix(prefix, rules))
    return [code for code in rules if code in chosen]


def _ignore_reasons(rules: Mapping[str, type[Rule]], ignore: Mapping[str, str]) -> dict[str, str]:
    """Return the reason for each ignored code; the longest matching prefix decides."""
    reasons: dict[str, str] = {}
    for prefix in sorted(ignore, key=len):
        reasons |= dict.fromkeys(codes_with_prefix(prefix, rules), ignore[prefix])
    return reasons


def _findings_by_code(
    context: Context, rules: Mapping[str, type[Rule]], selected: Sequence[str]
) -> dict[str, list[Finding]]:
    """Return the findings of each rule that no other rule explains.

    Rules run after those that explain them.
    """
    causes_of: dict[str, list[str]] = {}
    for code in selected:
        causes_of[code] = [cause for cause in rules[code].requires if cause in selected]
    by_code: dict[str, list[Finding]] = {}
    for code in TopologicalSorter(causes_of).static_order():
        causes: list[Finding] = []
        for cause in causes_of[code]:
            causes += by_code[cause]
        by_code[code] = without_explained(rules[code]().check(context), causes)
    return by_code


def without_explained(findings: Iterable[Finding], causes: Sequence[Finding]) -> list[Finding]:
    """Leave out findings that a cause in the same shard explains.

    A finding without a shard matches any shard.

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


def merge_findings(rule: Rule, findings: Sequence[Finding], context: Context) -> list[Finding]:
    """Keep the findings of the first shards, and merge all others into one.

    The most severe findings come first.
    """
    ranked = sorted(findings, key=lambda item: ORDER[item.severity])
    if len(ranked) <= SHARDS_NAMED + 1:
        return ranked
    kept = ranked[:SHARDS_NAMED]
    rest = ranked[SHARDS_NAMED:]
    total = sum(finding.count for finding in rest)
    shards = len({finding.shard for finding in rest})
    affected = {name for finding in rest for name in finding.readers}
    message = (
        f"{rule.title()}: the same in {how_many(shards, 'more shard')}, {total:,} times in total"
    )
    lost = total_lost(rest)
    cost = lost_samples_text(context, lost)
    if cost:
        message += f"; {cost}"
    merged = replace(
        rest[0],
        message=message,
        shard=None,
        key=None,
        offset=None,
        count=total,
        rate=None,
        readers=tuple(name for name in context.reader_names() if name in affected),
        repair=rule.fix_of_set(context),
        lost=lost,
    )
    return [*kept, merged]
