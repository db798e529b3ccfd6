"""The state of a feed, and whether it fits a feed.

A state is the position of a feed in an epoch, as JSON values:

* ``version`` of this form, ``epoch``, and ``identity``: what determines the order of the feed, from
  its settings and its shards.
* Of a balanced schedule ``samples``, given so far by all ranks, and ``stream_bytes``: the same on
  all ranks.
* Of other schedules ``batch``, and ``streams``, the round and the position of each stream, which is
  empty at the beginning of an epoch; ``base_seed``, ``shuffle_bytes`` and ``largest``: which also
  determine the samples of a batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wdsflow.text.shell import escape
from wdsflow.text.words import enumeration

from .shard_facts import ALL

VERSION = 1
# Those of its parts that are shown where something else was given.
_SHOWN = (
    "version",
    "epoch",
    "samples",
    "stream_bytes",
    "batch",
    "streams",
    "base_seed",
    "shuffle_bytes",
    "largest",
)
# Differences that are shown.
_MOST = 3
# Characters of a value that are shown.
_WIDE = 60


class OtherSamples(ValueError):
    """A state belongs to a feed of other samples. ``fixes``: lines that end with a command."""

    fixes: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n  ".join([str(self.args[0]), *self.fixes])


class OtherJoin(OtherSamples):
    """A state belongs to a feed that joined another table, or none.

    ``joined``: whether that feed joined one.
    """

    def __init__(self, text: str, *, joined: bool) -> None:
        super().__init__(text)
        self.joined = joined


class OtherSubset(OtherSamples):
    """A state belongs to a feed of other samples.

    ``ledger`` and ``where``: of that feed; None if it read all samples.

    ``again``: with them, this feed would match.
    """

    def __init__(self, text: str, ledger: str | None, where: str | None, *, again: bool) -> None:
        super().__init__(text)
        self.ledger, self.where, self.again = ledger, where, again


def check_state(
    state: object, identity: Mapping[str, Any], advice: str = "", *, global_order: bool = False
) -> None:
    """Raise ValueError if a value is not a state, or is a state of another feed.

    Raises OtherSamples if that feed read other samples.

    Args:
        state: what was given as a state.
        identity: of the feed that is to continue.
        advice: what follows the differences.
        global_order: there is one order of samples for all ranks.
    """
    if not isinstance(state, Mapping):
        raise _no_state(state)
    other = state.get("identity")
    if not isinstance(other, Mapping) or not _is_count(state.get("version")):
        raise _no_state(state)
    if state["version"] != VERSION:
        raise ValueError(
            f"the state has version {state['version']}; this wdsflow reads version {VERSION}{advice}"
        )
    _check_identity(other, identity, advice)
    numbers = ("epoch", "samples", "stream_bytes") if global_order else ("epoch", "batch")
    if not all(_is_count(state.get(name)) for name in numbers):
        raise _no_state(state)
    if state.get("samples", 0) > identity.get("samples", 0):
        raise _no_state(state)
    if state.get("batch") and not _are_positions(state.get("streams")):
        raise _no_state(state)
    for name in ("shuffle_bytes", "largest"):
        if name in state and not _is_count(state[name]):
            raise _no_state(state)


def _check_identity(then: Mapping[str, Any], now: Mapping[str, Any], advice: str) -> None:
    """Raise ValueError with the differences between two feeds."""
    differing = [name for name in now if now[name] != then.get(name)]
    if not differing:
        return
    text = f"the state is of another feed: {_shown(list(_differences(then, now)), '; ')}"
    other_choice = (then.get("ledger"), then.get("where"))
    choice_differs = other_choice != (now.get("ledger"), now.get("where"))
    # The same predicate keeps other samples if the ledger was written again.
    other_samples = "kept samples" in differing and "data" not in differing
    if choice_differs or other_samples:
        raise OtherSubset(text, *other_choice, again=choice_differs)
    if "join" in differing:
        raise OtherJoin(text, joined=then.get("join") is not None)
    if "shards" in differing:
        raise OtherSamples(f"{text}{advice}")
    raise ValueError(f"{text}{advice}")


def _are_positions(value: object) -> bool:
    if not isinstance(value, list | tuple) or not value:
        return False
    for pair in value:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(map(_is_count, pair)):
            return False
    return True


def _is_count(value: object) -> bool:
    # A number of any library.
    return hasattr(value, "__index__") and value >= 0  # type: ignore[operator]


def _no_state(state: object) -> ValueError:
    given = f"a {type(state).__name__}"
    if isinstance(state, Mapping):
        parts = [f"{name}={state[name]!r}" for name in _SHOWN if name in state]
        given = (
            f"a dict with {_shown(parts or list(map(str, state)))}" if state else "an empty dict"
        )
    return ValueError(
        f"this is not the state of a feed, but {given}: load what feed.state_dict() returned"
    )


def _differences(
    before: Mapping[str, Any], after: Mapping[str, Any], of: str = ""
) -> Iterator[str]:
    # A part that only the state has is of a later version; a shard that only the state has is gone.
    names = list(dict.fromkeys([*after, *before]) if of else after)
    if before.get(ALL) != after.get(ALL):
        names = [ALL]
    for name in names:
        then, now = before.get(name), after.get(name)
        if isinstance(now, Mapping) and isinstance(then, Mapping):
            yield from _differences(then, now, f"{of}{name}, ")
        elif then != now:
            yield f"{of}{name}: {escape(repr(then), _WIDE)} then, {escape(repr(now), _WIDE)} now"


def _shown(texts: Sequence[str], between: str = ", ") -> str:
    more = [f"{len(texts) - _MOST} more"] if len(texts) > _MOST else []
    return enumeration([between.join(escape(text, 3 * _WIDE) for text in texts[:_MOST]), *more])
