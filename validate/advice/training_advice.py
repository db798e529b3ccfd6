"""Settings with which the training command would run."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from wdsflow.readers.base import Reader
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.url_expansion import with_braces
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.text.shell import command
from wdsflow.text.words import how_many

from ..finding import Advice, Finding
from ..forecast.forecast import Forecast, forecast
from ..forecast.working_settings import working_settings
from ..rules.kit.base import Context
from ..rules.rule_catalog import run_rules
from ..verdicts.judge import judge
from .training_flags import merged_flags, paired_flags


def advise_training(context: Context) -> list[Advice]:
    """Return settings with which a command that stalls or never steps would run; the one that changes least first."""
    assert context.arguments is not None
    tried = TriedSettings(context)
    found: list[Advice] = []
    for each in context.forecasts:
        for brings, regains, flags in (
            _settings(context, context.arguments, each) if each.applies else ()
        ):
            every = tried.complete(flags)
            if every is not None:
                does = f"train with {command(every)}: {brings}"
                found.append(Advice(regains, does, each.reader, flags=every))
    return found


def advise_defaults(context: Context, shards: Sequence[ShardEvidence]) -> list[Advice]:
    """Return at most one setting for OpenCLIP, if its defaults fail on shards of which samples pass.

    Args:
        context: of the shards as they are.
        shards: those to train on: as they are, or as the planned repair would write them.
    """
    if len(shards) > _FEW_SHARDS:
        return []
    evidence = replace(context.evidence, shards=list(shards))
    for reader in context.readers:
        if not reader.name.startswith("open-clip"):
            continue
        verdict = judge(evidence, reader)
        if verdict.outcome in ("trains", "loses"):
            advice = _for_defaults(evidence, reader, verdict.usable)
            if advice is not None:
                return [advice]
    return []


def _for_defaults(evidence: Evidence, reader: Reader, usable: int) -> Advice | None:
    """Return the setting that changes least, None if OpenCLIP's defaults work or nothing helps."""
    arguments = Arguments(train_num_samples=usable)
    expected = forecast(evidence, reader, arguments)
    if expected.crash_kind == "shards":
        fails = f", {how_many(len(evidence.shards), 'shard is', 'shards are')} too few"
        if usable < arguments.batch_size:
            fails += f", and {how_many(usable, 'sample')} for a batch of {arguments.batch_size}"
    elif expected.stalled:
        fails = f" and batches of {arguments.batch_size}, a worker gets too few samples"
    else:
        return None
    flags = next(working_settings(evidence, reader, arguments, usable), None)
    if flags is None:
        return None
    does = f"with OpenCLIP's default of {arguments.workers} workers{fails}: train with {command(flags)}"
    return Advice(0, does, reader.name, flags=flags)


def _settings(
    context: Context, arguments: Arguments, expected: Forecast
) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield the effect of a setting, the samples that reach a batch, and the flag with its value."""
    reader = next(each for each in context.readers if each.name == expected.reader)
    # All else depends on the shards.
    if expected.not_expanded:
        if braces := with_braces(arguments.train_data or ""):
            usable = next(
                each.usable for each in context.verdicts if each.reader == expected.reader
            )
            yield "OpenCLIP finds the shards", usable, ("--train-data", braces)
        return
    refused = expected.crash_kind == "shards"
    if refused or (expected.stalled and expected.usable):
        usable = expected.usable or next(
            each.usable for each in context.verdicts if each.reader == expected.reader
        )
        for flags in working_settings(context.evidence, reader, arguments, usable):
            yield (
                _BRINGS.get(flags[0], "every worker gets batches in all epochs that were checked"),
                usable,
                flags,
            )
    if expected.length is not None and not expected.steps and not expected.stalled:
        yield "the optimizer steps", 0, ("--accum-freq", str(expected.length.batches))


_BRINGS = {"--dataset-resampled": "every worker draws from all shards"}
_NUMBERS = {"--workers", "--batch-size", "--train-num-samples", "--accum-freq", "--warmup"}
_SWITCHES = {"--dataset-resampled"}
_WORDS = {"--dataset-type", "--train-data", "--val-data"}
# More of them starve no worker, as a rule, and take time to distribute.
_FEW_SHARDS = 100
# Applied in sequence.
_MOST_FIXES = 8


class TriedSettings:
    """Tries settings on the forecast of a training command; each combination once."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._tried: dict[tuple[str, ...], list[Finding]] = {}
        self._now = {finding.code for finding in self.findings(()) if finding.severity == "error"}

    def complete(self, flags: Sequence[str]) -> tuple[str, ...] | None:
        """Return the flags and those that the command needs in addition; None if it would end with another error."""
        found = tuple(flags)
        for _ in range(_MOST_FIXES):
            errors = [each for each in self.findings(found) if each.severity == "error"]
            fixes = [
                each.repair.flags
                for each in errors
                if each.repair is not None and each.repair.flags
            ]
            more = merged_flags(found, fixes[0]) if fixes else found
            if more == found:
                return found if {each.code for each in errors} <= self._now else None
            found = more
        return None

    def findings(self, flags: tuple[str, ...]) -> list[Finding]:
        """Return the findings of the rules about training for the command with these flags."""
        if flags not in self._tried:
            self._tried[flags] = run_rules(_changed(self.context, flags), ["P3"])[0]
        return self._tried[flags]


def try_settings(findings: Sequence[Finding], context: Context) -> list[Finding]:
    """Return the findings with fixes after which the training command meets no other refusal.

    If several errors need a setting, the fix of each has all of them. Warnings have the setting
    that is right for the command without these errors, and none if nothing remains to fix.
    """
    if context.arguments is None or not any(
        each.repair is not None and each.repair.flags for each in findings
    ):
        return list(findings)
    tried = TriedSettings(context)
    every: tuple[str, ...] = ()
    for finding in findings:
        if finding.severity == "error" and finding.repair is not None:
            every = merged_flags(finding.repair.flags, every)
    base = tried.complete(every)
    return [_with_fix(each, base, tried) for each in findings]


def _with_fix(finding: Finding, base: tuple[str, ...] | None, tried: TriedSettings) -> Finding:
    repair = finding.repair
    if repair is None or not repair.flags:
        return finding
    if finding.severity == "error" or base is None:
        flags = base if base is not None else tried.complete(repair.flags)
    else:
        again = next((each for each in tried.findings(base) if each.code == finding.code), None)
        repair = again.repair if again is not None else None
        flags = (
            tried.complete(merged_flags(base, repair.flags))
            if repair is not None and repair.flags
            else None
        )
    if repair is None or flags is None:
        return replace(finding, repair=None)
    if flags != repair.flags and repair.flags[0] in _NUMBERS | _SWITCHES | _WORDS:
        repair = replace(repair, note=f"train with {command(flags)}")
    return replace(finding, repair=replace(repair, flags=flags))


def _changed(context: Context, flags: tuple[str, ...]) -> Context:
    """Return the context of the training command with other settings."""
    assert context.arguments is not None
    values: dict[str, Any] = {}
    for name, *value in paired_flags(flags):
        known = name.removeprefix("--").replace("-", "_")
        if name in _NUMBERS:
            values[known] = int(value[0])
        elif name in _SWITCHES | _WORDS:
            values[known] = value[0] if value else True
    if not values:
        return context
    arguments = replace(context.arguments, **values)
    readers = {reader.name: reader for reader in context.readers}
    found = tuple(
        forecast(context.evidence, readers[each.reader], arguments, context.sidecars)
        if each.applies
        else each
        for each in context.forecasts
    )
    return replace(context, arguments=arguments, forecasts=found)
