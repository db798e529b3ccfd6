"""Settings with which the training command would run."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from wdsflow.readers.base import Reader
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.url_expansion import with_braces
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.text.shell import command
from wdsflow.text.words import how_many

from ..finding import Advice
from ..forecast.forecast import forecast
from ..forecast.forecast_result import Forecast
from ..forecast.working_settings import working_settings
from ..rules.kit.base import Context
from ..verdicts.judge import judge
from .tried_settings import TriedSettings

# Flag -> its effect, if it is another than that of most.
_EFFECTS = {"--dataset-resampled": "every worker draws from all shards"}
_USUAL_EFFECT = "every worker gets batches in all epochs that were checked"
# More of them starve no worker, as a rule, and take time to distribute.
_FEW_SHARDS = 100


class _Setting(NamedTuple):
    """A flag of the training command that helps."""

    effect: str
    # Samples that reach a batch with it.
    regains: int
    # With its value.
    flags: tuple[str, ...]


def advise_training(context: Context) -> list[Advice]:
    """Return settings with which a command that stalls or never steps would run.

    The setting that changes least comes first.
    """
    assert context.arguments is not None
    tried = TriedSettings(context)
    advice: list[Advice] = []
    for expected in context.forecasts:
        if not expected.applies:
            continue
        for setting in _settings(context, context.arguments, expected):
            flags = tried.complete(setting.flags)
            if flags is not None:
                action = f"train with {command(flags)}: {setting.effect}"
                advice.append(Advice(setting.regains, action, expected.reader, flags=flags))
    return advice


def advise_defaults(context: Context, shards: Sequence[ShardEvidence]) -> list[Advice]:
    """Return at most one setting for OpenCLIP, if its defaults fail on usable shards.

    Shards are usable if some of their samples pass.

    Args:
        context: of the shards as they are.
        shards: those to train on: as they are, or as the planned repair would write them.
    """
    if len(shards) > _FEW_SHARDS:
        return []
    evidence = replace(context.evidence, shards=list(shards))
    for reader in context.readers:
        if not reader.runs_training_command:
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
    action = f"with OpenCLIP's default of {arguments.workers} workers{fails}: train with {command(flags)}"
    return Advice(0, action, reader.name, flags=flags)


def _settings(context: Context, arguments: Arguments, expected: Forecast) -> Iterator[_Setting]:
    """Yield settings with which a command would run; the one that changes least first."""
    # All else depends on the shards.
    if expected.not_expanded:
        braces = with_braces(arguments.train_data or "")
        if braces:
            usable = context.usable_samples(expected.reader)
            yield _Setting("OpenCLIP finds the shards", usable, ("--train-data", braces))
        return
    refused = expected.crash_kind == "shards"
    if refused or (expected.stalled and expected.usable):
        usable = expected.usable or context.usable_samples(expected.reader)
        reader = context.reader_named(expected.reader)
        for flags in working_settings(context.evidence, reader, arguments, usable):
            yield _Setting(_EFFECTS.get(flags[0], _USUAL_EFFECT), usable, flags)
    if expected.length is not None and not expected.steps and not expected.stalled:
        flags = ("--accum-freq", str(expected.length.batches))
        yield _Setting("the optimizer steps", 0, flags)
