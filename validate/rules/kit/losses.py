"""How many samples each finding costs: the losses of a reader, divided among its findings."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from wdsflow.text.words import how_many

from ...finding import ORDER, Finding
from .attribution import attributed
from .base import Context, Rule

Found = Mapping[str, Sequence[Finding]]
"""The findings by the code of their rule."""


def with_losses(
    found: Found, rules: Mapping[str, type[Rule]], context: Context, *, is_all: bool
) -> dict[str, list[Finding]]:
    """Return findings with the number of samples that each reader loses by them, also in their messages.

    ``is_all``: all rules have looked, so that every lost sample belongs to one of the findings.
    """
    costs: dict[tuple[str, int], Counter[str]] = {}
    for reader in context.readers:
        for (url, code), count in attributed(context, reader).items():
            for place, part in _places(found, rules, url, code, count, is_all=is_all):
                costs.setdefault(place, Counter())[reader.name] += part
    return {
        code: [
            _with_cost(each, costs.get((code, number)), context)
            for number, each in enumerate(findings)
        ]
        for code, findings in found.items()
    }


def _places(
    found: Found, rules: Mapping[str, type[Rule]], url: str, code: str, count: int, *, is_all: bool
) -> Iterable[tuple[tuple[str, int], int]]:
    """Yield the findings that the samples lost in a shard by a rule belong to, each with its part of them."""
    numbers = _in_shard(found, rules, url, code)
    # Another rule has explained the finding, or reports it for all shards.
    if not numbers:
        code, numbers = _explaining(found, rules, url, code, is_all=is_all)
    for number in numbers[:-1]:
        part = min(count, found[code][number].count)
        count -= part
        yield (code, number), part
    if numbers:
        yield (code, numbers[-1]), count


def _in_shard(found: Found, rules: Mapping[str, type[Rule]], url: str, code: str) -> list[int]:
    """Return the findings of a rule in a shard, otherwise those about all shards, by their numbers."""
    findings = list(enumerate(found.get(code, ())))
    if code in rules and rules[code].of_set:
        return [number for number, _ in findings]
    here = [number for number, each in findings if each.shard == url]
    return here or [number for number, each in findings if each.shard is None]


def _explaining(
    found: Found, rules: Mapping[str, type[Rule]], url: str, code: str, *, is_all: bool
) -> tuple[str, list[int]]:
    """Return the finding that explains the losses by a rule that has none: that of a cause, or the worst in the shard."""
    for cause in rules[code].requires if code in rules else ():
        if numbers := _in_shard(found, rules, url, cause):
            return cause, numbers[:1]
    for place in (url, None) if is_all else ():
        near = [
            (ORDER[each.severity], other, number)
            for other, findings in found.items()
            for number, each in enumerate(findings)
            if each.shard == place and other[0] != "P"
        ]
        if near:
            _, other, number = min(near)
            return other, [number]
    return code, []


def _with_cost(finding: Finding, cost: Counter[str] | None, context: Context) -> Finding:
    lost = dict(+cost) if cost else {}
    if not lost:
        return finding
    return replace(finding, lost=lost, message=f"{finding.message}; {drops(context, lost)}")


def total_lost(findings: Iterable[Finding]) -> dict[str, int]:
    """Return the samples that each reader loses by some findings."""
    total: Counter[str] = Counter()
    for each in findings:
        total.update(each.lost)
    return dict(total)


def drops(context: Context, lost: Mapping[str, int]) -> str:
    """Describe how many samples readers lose: "OpenCLIP 3.3.0 drops 3 samples"; "" for none."""
    groups: dict[int, list[str]] = {}
    for name, samples in lost.items():
        groups.setdefault(samples, []).append(name)
    texts: list[str] = []
    for samples, names in groups.items():
        number = how_many(samples, "sample")
        texts += context.losing(names, number, number)
    return ", ".join(texts)
