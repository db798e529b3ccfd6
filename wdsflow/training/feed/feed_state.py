"""The position of a feed, as json: another process can resume from it, or says why not and what to do."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.stalls.field_fixes import command
from wdsflow.validate.advice.invocation import with_flags

from .lanes import LanePosition

_VERSION = 1


class OtherSubset(ValueError):
    """A state of a feed of other samples. ``ledger`` and ``where``: of that feed; None if it read all samples.

    ``again``: this feed would be the same with them. ``fixes``: lines that end with a command.
    """

    fixes: Sequence[str] = ()

    def __init__(self, text: str, ledger: str | None, where: str | None, *, again: bool) -> None:
        super().__init__(text)
        self.ledger, self.where, self.again = ledger, where, again

    def __str__(self) -> str:
        return "\n  ".join([str(self.args[0]), *self.fixes])


def make_state(
    identity: Mapping[str, Any],
    *,
    epoch: int,
    batch: int,
    positions: Sequence[LanePosition] | None,
    base_seed: int | None,
    shuffle_bytes: int,
    largest: int,
) -> dict[str, Any]:
    """Return the state behind ``batch`` batches of an epoch. Without positions it is that of an epoch's beginning."""
    return {
        "version": _VERSION,
        "epoch": epoch,
        "batch": batch,
        "lanes": [list(position) for position in positions or ()],
        "base_seed": base_seed,
        "shuffle_bytes": shuffle_bytes,
        "largest": largest,
        "identity": dict(identity),
    }


def check_state(state: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Raise ValueError if a state is of another feed; names what differs. Raises OtherSubset if it read other samples."""
    if state.get("version") != _VERSION:
        raise ValueError(f"the state has version {state.get('version')!r}; this wdsflow reads version {_VERSION}")
    own, other = dict(identity), dict(state["identity"])
    differing = [name for name in own if own[name] != other.get(name)]
    if differing:
        shown = "; ".join(f"{name}: {other.get(name)!r} then, {own[name]!r} now" for name in differing)
        text = f"the state is of another feed: {shown}"
        asked, now = ((which.get("ledger"), which.get("where")) for which in (other, own))
        if asked != now or ("kept samples" in differing and "data" not in differing):
            raise OtherSubset(text, *asked, again=asked != now)
        raise ValueError(text)


def resume_fixes(options: FeedOptions, other: OtherSubset) -> list[str]:
    """Return what to do where a run cannot resume because it would read other samples; each line ends with a command."""
    if not options.argv:
        return []
    fixes = []
    if other.again:
        same = command(options, ledger=other.ledger, where=other.where)
        fixes.append(f"to resume with the samples of the checkpoint: {same}")
    argv = _without_resume(options.argv)
    return [*fixes, f"to begin a new run with these samples: {command(replace(options, argv=tuple(argv)))}"]


def _without_resume(argv: Sequence[str]) -> list[str]:
    """Return OpenCLIP's arguments for a new run, under another name if the run had one."""
    words = with_flags(argv, ["--resume", ""])[:-2]
    names = [after for word, after in pairwise(words) if word == "--name"]
    names += [word.removeprefix("--name=") for word in words if word.startswith("--name=")]
    return with_flags(words, ["--name", f"{names[-1]}-2"]) if names else words
