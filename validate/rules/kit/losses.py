"""How many samples each finding costs: the losses of a reader, divided among its findings."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from wdsflow.text.words import how_many

from ...finding import ORDER, Finding
from .attribution import losses_by_rule
from .base import Context, Rule

FindingsByCode = Mapping[str, Sequence[Finding]]
"""The findings by the code of their rule."""


class _FindingId(NamedTuple):
    """One of the findings of a rule."""

    code: str
    number: int


def with_losses(
    findings: FindingsByCode, rules: Mapping[str, type[Rule]], context: Context, *, is_all: bool
) -> dict[str, list[Finding]]:
    """Return findings with the number of samples that each reader loses by them.

    The messages give these numbers, too.

    ``is_all``: all rules have looked, so that every lost sample belongs to one of the findings.
    """
    divider = _LossDivider(findings, rules, is_all=is_all)
    costs: dict[_FindingId, Counter[str]] = {}
    for reader in context.readers:
        for (url, code), count in losses_by_rule(context, reader).items():
            for finding_id, samples in divider.split_among_findings(url, code, count):
                costs.setdefault(finding_id, Counter())[reader.name] += samples
    results: dict[str, list[Finding]] = {}
    for code, of_rule in findings.items():
        results[code] = []
        for number, finding in enumerate(of_rule):
            cost = costs.get(_FindingId(code, number))
            results[code].append(_with_cost(finding, cost, context))
    return results


def total_lost(findings: Iterable[Finding]) -> dict[str, int]:
    """Return the samples that each reader loses by some findings."""
    total: Counter[str] = Counter()
    for finding in findings:
        total.update(finding.lost)
    return dict(total)


def lost_samples_text(context: Context, lost: Mapping[str, int]) -> str:
    """Describe how many samples readers lose: "OpenCLIP 3.3.0 drops 3 samples"; "" for none."""
    groups: dict[int, list[str]] = {}
    for name, samples in lost.items():
        groups.setdefault(samples, []).append(name)
    texts: list[str] = []
    for samples, names in groups.items():
        number = how_many(samples, "sample")
        texts += context.incomplete_samples_texts(names, number, number)
    return ", ".join(texts)


class _LossDivider:
    """Divides the samples that are lost by a rule in a shard among findings."""

    def __init__(
        self, findings: FindingsByCode, rules: Mapping[str, type[Rule]], *, is_all: bool
    ) -> None:
        self._findings = findings
        self._rules = rules
        self._is_all = is_all

    def split_among_findings(
        self, url: str, code: str, count: int
    ) -> Iterator[tuple[_FindingId, int]]:
        """Yield the findings that samples belong to, each with its part of them.

        Args:
            url: of the shard.
            code: of the rule.
            count: of the samples.
        """
        finding_ids = self._findings_in_shard(url, code)
        if not finding_ids:
            # Another rule has explained the finding, or reports it for all shards.
            explanation = self._explanation(url, code)
            if explanation is None:
                return
            finding_ids = [explanation]
        *others, last = finding_ids
        for finding_id in others:
            part = min(count, self._findings[finding_id.code][finding_id.number].count)
            count -= part
            yield finding_id, part
        yield last, count

    def _findings_in_shard(self, url: str, code: str) -> list[_FindingId]:
        """Return the findings of a rule in a shard, otherwise those about all shards."""
        of_all: list[_FindingId] = []
        of_shard: list[_FindingId] = []
        without_shard: list[_FindingId] = []
        for number, finding in enumerate(self._findings.get(code, ())):
            finding_id = _FindingId(code, number)
            of_all.append(finding_id)
            if finding.shard == url:
                of_shard.append(finding_id)
            elif finding.shard is None:
                without_shard.append(finding_id)
        if code in self._rules and self._rules[code].of_set:
            return of_all
        return of_shard or without_shard

    def _explanation(self, url: str, code: str) -> _FindingId | None:
        """Return the finding that explains losses by a rule without a finding; None if none does.

        This is the finding of a cause, otherwise the worst one in the shard, otherwise the worst
        one without a shard.
        """
        causes = self._rules[code].requires if code in self._rules else ()
        for cause in causes:
            finding_ids = self._findings_in_shard(url, cause)
            if finding_ids:
                return finding_ids[0]
        if not self._is_all:
            return None
        return self._worst_finding(url) or self._worst_finding(None)

    def _worst_finding(self, url: str | None) -> _FindingId | None:
        """Return the most severe finding about the data of a shard; url None: about no shard."""
        candidates: list[tuple[int, _FindingId]] = []
        for code, of_rule in self._findings.items():
            # Those are about the configuration.
            if code.startswith("P"):
                continue
            for number, finding in enumerate(of_rule):
                if finding.shard == url:
                    candidates.append((ORDER[finding.severity], _FindingId(code, number)))
        return min(candidates)[1] if candidates else None


def _with_cost(finding: Finding, cost: Counter[str] | None, context: Context) -> Finding:
    lost = dict(+cost) if cost else {}
    if not lost:
        return finding
    return replace(
        finding, lost=lost, message=f"{finding.message}; {lost_samples_text(context, lost)}"
    )
