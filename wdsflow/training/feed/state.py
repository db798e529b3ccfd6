"""The state of a feed: its form, and whether it fits a feed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypedDict

from wdsflow.text.shell import escape
from wdsflow.text.words import listed
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.stalls.field_fixes import command
from wdsflow.validate.advice.training_flags import with_flags

VERSION = 1
_MOST, _WIDE = 3, 60  # differences that are shown; characters of a value


class State(TypedDict, total=False):
    """The position of a feed in an epoch, as JSON.

    A balanced schedule has ``samples`` and ``lane_bytes``, the same on all ranks; others have the
    rest: ``lanes`` is empty at the beginning of an epoch.
    """

    version: int
    epoch: int
    identity: dict[str, object]
    samples: int
    lane_bytes: int
    batch: int
    lanes: list[list[int]]
    base_seed: int | None
    shuffle_bytes: int
    largest: int


class OtherSubset(ValueError):
    """A state belongs to a feed of other samples. ``ledger`` and ``where``: of that feed; None if it read all samples.

    ``again``: with them, this feed would match. ``fixes``: lines that end with a command.
    """

    fixes: Sequence[str] = ()

    def __init__(self, text: str, ledger: str | None, where: str | None, *, again: bool) -> None:
        super().__init__(text)
        self.ledger, self.where, self.again = ledger, where, again

    def __str__(self) -> str:
        return "\n  ".join([str(self.args[0]), *self.fixes])


def check_state(state: object, identity: Mapping[str, Any], advice: str = "") -> None:
    """Raise ValueError if a value is no state, or is of another feed; OtherSubset if that read other samples.

    ``advice``: what follows the differences.
    """
    if not (isinstance(state, Mapping) and isinstance(state.get("identity"), Mapping) and _whole(state.get("version"))):
        raise _no_state(state)
    if state["version"] != VERSION:
        raise ValueError(f"the state has version {state['version']}; this wdsflow reads version {VERSION}{advice}")
    own, other = dict(identity), dict(state["identity"])
    differing = [name for name in own if own[name] != other.get(name)]
    if differing:
        text = f"the state is of another feed: {_shown(list(_differences(other, own)), '; ')}"
        asked, now = ((which.get("ledger"), which.get("where")) for which in (other, own))
        if asked != now or ("kept samples" in differing and "data" not in differing):
            raise OtherSubset(text, *asked, again=asked != now)
        raise ValueError(f"{text}{advice}")
    names = ("epoch", "samples", "lane_bytes") if own.get("schedule") == "balanced" else ("epoch", "batch")
    if not all(_whole(state.get(name)) for name in names) or state.get("samples", 0) > own.get("samples", 0):
        raise _no_state(state)
    if state.get("batch") and not _are_lanes(state.get("lanes")):
        raise _no_state(state)


def _are_lanes(value: object) -> bool:
    pairs = value if isinstance(value, list | tuple) and value else [None]
    return all(isinstance(pair, list | tuple) and len(pair) == 2 and all(map(_whole, pair)) for pair in pairs)


def _whole(value: object) -> bool:
    return hasattr(value, "__index__") and value >= 0  # type: ignore[operator]  # a number of any library


def _no_state(state: object) -> ValueError:
    given = f"a {type(state).__name__}"
    if isinstance(state, Mapping):
        own = [f"{name}={state[name]!r}" for name in State.__annotations__ if name in state and name != "identity"]
        given = f"a dict with {_shown(own or list(map(str, state)))}" if state else "an empty dict"
    return ValueError(f"this is not the state of a feed, but {given}: load what feed.state_dict() returned")


def _differences(other: Mapping[str, Any], own: Mapping[str, Any], of: str = "") -> Iterator[str]:
    for name, now in own.items():
        then = other.get(name)
        if isinstance(now, Mapping) and isinstance(then, Mapping):
            yield from _differences(then, now, f"{of}{name}, ")
        elif then != now:
            yield f"{of}{name}: {escape(repr(then), _WIDE)} then, {escape(repr(now), _WIDE)} now"


def _shown(texts: Sequence[str], between: str = ", ") -> str:
    more = [f"{len(texts) - _MOST} more"] if len(texts) > _MOST else []
    return listed([between.join(escape(text, 3 * _WIDE) for text in texts[:_MOST]), *more])


def resume_fixes(options: FeedOptions, other: OtherSubset) -> list[str]:
    """Return fixes for a run that cannot resume because it would read other samples; each line ends with a command."""
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
