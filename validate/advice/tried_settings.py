"""Tries settings of a training command on its forecast.

A setting must fix a finding, and cause no other.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wdsflow.text.shell import command

from ..catalog.run_rules import run_rules
from ..finding import Finding
from ..forecast.forecast import forecast
from ..forecast.forecast_result import Forecast
from ..rules.kit.base import Context
from .training_flags import flags_with_values, merged_flags

# Flags that change a forecast, by the kind of their value.
_NUMBERS = {"--workers", "--batch-size", "--train-num-samples", "--accum-freq", "--warmup"}
_SWITCHES = {"--dataset-resampled"}
_WORDS = {"--dataset-type", "--train-data", "--val-data"}
# Applied in sequence.
_MOST_FIXES = 8
# Codes of the rules about training.
_TRAINING_RULES = "P3"


class TriedSettings:
    """Tries settings on the forecast of a training command; each combination once."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._tried: dict[tuple[str, ...], list[Finding]] = {}
        self._codes_now = {finding.code for finding in self._errors(())}

    def complete(self, flags: Sequence[str]) -> tuple[str, ...] | None:
        """Return the flags, and those that the command needs in addition.

        Returns None if the command would end with another error.
        """
        completed = tuple(flags)
        for _ in range(_MOST_FIXES):
            errors = self._errors(completed)
            fix = _first_flags(errors)
            more = merged_flags(completed, fix) if fix else completed
            if more == completed:
                is_no_worse = {error.code for error in errors} <= self._codes_now
                return completed if is_no_worse else None
            completed = more
        return None

    def findings(self, flags: tuple[str, ...]) -> list[Finding]:
        """Return the findings of the rules about training for the command with these flags."""
        if flags not in self._tried:
            findings, _ = run_rules(_changed(self.context, flags), [_TRAINING_RULES])
            self._tried[flags] = findings
        return self._tried[flags]

    def _errors(self, flags: tuple[str, ...]) -> list[Finding]:
        return [finding for finding in self.findings(flags) if finding.severity == "error"]


def try_settings(findings: Sequence[Finding], context: Context) -> list[Finding]:
    """Return the findings with fixes after which the training command meets no other refusal.

    If several errors need a setting, the fix of each has all of them. Warnings have the setting
    that is right for the command without these errors, and none if nothing remains to fix.
    """
    if context.arguments is None or not _first_flags(findings):
        return list(findings)
    tried = TriedSettings(context)
    of_errors: tuple[str, ...] = ()
    for finding in findings:
        if finding.severity == "error" and finding.repair is not None:
            of_errors = merged_flags(finding.repair.flags, of_errors)
    base = tried.complete(of_errors)
    return [_with_fix(finding, base, tried) for finding in findings]


def _first_flags(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return the flags of the first repair that changes a training command; () if none does."""
    for finding in findings:
        if finding.repair is not None and finding.repair.flags:
            return finding.repair.flags
    return ()


def _with_fix(finding: Finding, base: tuple[str, ...] | None, tried: TriedSettings) -> Finding:
    """Return a finding with a fix that works.

    ``base``: the flags that fix all errors, None if no flags do.
    """
    repair = finding.repair
    if repair is None or not repair.flags:
        return finding
    flags: tuple[str, ...] | None
    if base is None:
        flags = tried.complete(repair.flags)
    elif finding.severity == "error":
        flags = base
    else:
        # What remains of the warning without the errors.
        flags = None
        repair = None
        for remaining in tried.findings(base):
            if remaining.code == finding.code:
                repair = remaining.repair
                break
        if repair is not None and repair.flags:
            flags = tried.complete(merged_flags(base, repair.flags))
    if repair is None or flags is None:
        return replace(finding, repair=None)
    if flags != repair.flags and repair.flags[0] in _NUMBERS | _SWITCHES | _WORDS:
        repair = replace(repair, note=f"train with {command(flags)}")
    return replace(finding, repair=replace(repair, flags=flags))


def _changed(context: Context, flags: tuple[str, ...]) -> Context:
    """Return the context of the training command with other settings."""
    assert context.arguments is not None
    values: dict[str, Any] = {}
    for name, *value in flags_with_values(flags):
        attribute = name.removeprefix("--").replace("-", "_")
        if name in _NUMBERS:
            values[attribute] = int(value[0])
        elif name in _SWITCHES | _WORDS:
            values[attribute] = value[0] if value else True
    if not values:
        return context
    arguments = replace(context.arguments, **values)
    readers = {reader.name: reader for reader in context.readers}
    forecasts: list[Forecast] = []
    for expected in context.forecasts:
        if not expected.applies:
            forecasts.append(expected)
            continue
        reader = readers[expected.reader]
        forecasts.append(forecast(context.evidence, reader, arguments, context.sidecars))
    return replace(context, arguments=arguments, forecasts=tuple(forecasts))
