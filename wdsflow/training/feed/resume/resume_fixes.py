"""Commands for a run that cannot resume, because it would read other samples."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from wdsflow.joining.join_options import no_join
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.stalls.field_fixes import rerun_command
from wdsflow.validate.advice.training_flags import with_flags

from .state import OtherJoin, OtherSamples, OtherSubset


def resume_fixes(options: FeedOptions, other: OtherSamples) -> list[str]:
    """Return fixes for a run that cannot resume because it would read other samples.

    Each line ends with a command.
    """
    if not options.argv:
        return []
    fixes = []
    if isinstance(other, OtherJoin) and not other.joined:
        same = rerun_command(options, **no_join())
        fixes.append(f"to resume without the table, as that run read its samples: {same}")
    if isinstance(other, OtherSubset) and other.again:
        same = rerun_command(options, ledger=other.ledger, where=other.where)
        fixes.append(f"to resume with the samples of the checkpoint: {same}")
    argv = _without_resume(options.argv)
    return [
        *fixes,
        f"to begin a new run with these samples: {rerun_command(replace(options, argv=tuple(argv)))}",
    ]


def _without_resume(argv: Sequence[str]) -> list[str]:
    """Return OpenCLIP's arguments for a new run, under another name if the run had one."""
    words = with_flags(argv, ["--resume", ""])[:-2]
    names = [after for word, after in pairwise(words) if word == "--name"]
    names += [word.removeprefix("--name=") for word in words if word.startswith("--name=")]
    return with_flags(words, ["--name", f"{names[-1]}-2"]) if names else words
