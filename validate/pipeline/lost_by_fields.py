"""Whether a pipeline loses every sample that has certain fields, whatever these fields hold.

That all probes of a shape fail alike does not prove it: one sample in a thousand may hold what lets it pass. It is proven
where a stage drops a stand-in that has the same fields without a look at any contents, and where the code on the way
from the sample to the missing field has no branch.
"""

import dis
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from types import CodeType
from typing import Any, NoReturn

from ..tracing.kept_globals import state_of_chance
from ..tracing.pipeline_steps import Chain, PipelineStep
from .rewire import PipelineFacts

FORM_SAMPLES = ("tarfile_to_samples", "tarfile_samples", "group_by_keys", "cached_tarfile_to_samples")
_MOVE_VALUES = frozenset("to_tuple rename rename_keys extract_keys shuffle detshuffle".split())  # and no more
_TRIES = 3
_ALIKE = 256  # samples of each try
_PATIENCE = 0.2  # seconds in which they are given
_looks: list[int] = []


def lost_by_fields(chain: Chain, facts: PipelineFacts) -> int:
    """Return the number of the stage that drops or refuses all samples with the fields of one; 0 if none is certain to.

    Args:
        chain: the pipeline over a tar that holds this sample alone.
        facts: of the same pipeline.
    """
    names = [step.title.partition("(")[0] for step in chain.steps]
    first = max((index for index, name in enumerate(names) if name in FORM_SAMPLES), default=None)
    if first is None or facts.picks_members:
        return 0
    source: Any = None
    for index, step in enumerate(chain.steps[: first + 1]):
        source = step.make(_ignore)(*([source] if index else []))
    samples = list(islice(source, 2))
    if len(samples) != 1 or not isinstance(samples[0], dict):
        return 0
    return _walk(chain.steps, first + 1, samples[0], facts)


def _walk(steps: list[PipelineStep], start: int, sample: dict[Any, Any], facts: PipelineFacts) -> int:
    """Pass a stand-in through the stages; the sample itself as well, for code whose line is of interest."""
    empty = {key: _Contents() for key in sample}
    real: dict[Any, Any] | None = sample
    for number, step in enumerate(steps[start:], start + 1):
        passed = None if number in facts.decoders else _passed(step, empty)
        if passed is not None and not passed:
            return number
        came, error = _tried(step, _Watched(real)) if real is not None else (None, None)
        real = dict(came[0]) if came is not None and len(came) == 1 and isinstance(came[0], dict) else None
        if error is not None and _without_branches(error):
            return number
        if number not in facts.decoders:  # those change values, or drop the sample
            if passed is None:
                return 0
            empty = passed[0]
    return 0


def _passed(step: PipelineStep, fields: dict[Any, Any]) -> list[dict[Any, Any]] | None:
    """Return what a stage gives for a sample with these fields; None if that depends on contents, chance or place."""
    results = []
    for _ in range(_TRIES):
        given: list[_Empty] = []
        free = step.package.startswith("webdataset.") and step.title.partition("(")[0] in _MOVE_VALUES
        before, chance = len(_looks), state_of_chance()
        try:
            result = list(islice(step.make(_ignore)(_alike(fields, given)), _ALIKE + 1))
        except (Exception, SystemExit):  # noqa: BLE001 - of other people's making
            result = []
        except _LookedError:
            return None
        unseen = free or not any(sample.looked for sample in given)
        if len(_looks) > before or not unseen or (state_of_chance() != chance and "shuffle" not in step.title):
            return None
        if len(result) not in (0, len(given)) or not all(isinstance(each, dict) for each in result):
            return None
        results.append([dict(_plain(each)) for each in result[:1]])
    return results[0] if len({len(each) for each in results}) == 1 else None


def _alike(fields: dict[Any, Any], given: list["_Empty"]) -> Iterator["_Empty"]:
    """Yield samples with the same fields, and add them to ``given``: a stage may count, and let every third one pass."""
    ends = time.monotonic() + _PATIENCE
    while len(given) < _ALIKE and (not given or time.monotonic() < ends):
        given.append(_Empty(fields))
        yield given[-1]


def _tried(step: PipelineStep, sample: "_Watched") -> tuple[list[Any] | None, KeyError | None]:
    """Return what a stage gives for a sample, and the error where it asked the sample for a field that is missing."""
    errors: list[Exception] = []
    came: list[Any] | None = None
    try:
        came = list(islice(step.make(lambda error, _: errors.append(error))(iter([sample])), 2))
    except Exception as error:  # noqa: BLE001 - of other people's making
        errors.append(error)
    return came, next((each for each in errors if each is sample.error), None) if sample.error else None


def _without_branches(error: KeyError) -> bool:
    """Return whether each call of the user's function comes to the line of an error, or ends before it in another."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame.f_code, trace.tb_lasti, str(trace.tb_frame.f_globals.get("__name__"))))
        trace = trace.tb_next
    own = max((index for index, (_, _, module) in enumerate(frames[:-1]) if _is_library(module)), default=-1) + 1
    # The last frame is that of __missing__, below.
    return own > 0 and own < len(frames) - 1 and all(_straight(code, last) for code, last, _ in frames[own:-1])


def _is_library(module: str) -> bool:
    return module.startswith(("webdataset.", "wdsflow."))


def _straight(code: CodeType, until: int) -> bool:
    jumps = {*dis.hasjrel, *dis.hasjabs}
    if getattr(code, "co_exceptiontable", b"") or code.co_flags & 0x20:  # handlers of errors; a generator
        return False
    return not any(
        each.opcode in jumps or each.opname.startswith(("RETURN", "RAISE", "SETUP_"))
        for each in dis.get_instructions(code)
        if each.offset < until
    )


def _plain(sample: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    return ((key, dict.__getitem__(sample, key)) for key in sample)


def _ignore(error: Exception, goes_on: bool) -> None:
    """Take a note of an error, which nobody needs."""


class _LookedError(BaseException):
    """Code used contents. Not an Exception: no handler of a stage swallows it."""


class _Contents:
    """Stands for the contents of a field: it can be passed on, and nothing else."""

    __slots__ = ()

    def __getattribute__(self, _: str) -> NoReturn:
        _refuse()

    __bool__ = __len__ = __iter__ = __str__ = __repr__ = __bytes__ = lambda *_: _refuse()
    __eq__ = __ne__ = __hash__ = __lt__ = __le__ = __gt__ = __ge__ = lambda *_: _refuse()
    __getitem__ = __contains__ = __format__ = __call__ = __int__ = __index__ = __float__ = lambda *_: _refuse()


def _refuse() -> NoReturn:
    _looks.append(1)
    raise _LookedError


class _Watched(dict[Any, Any]):
    """A sample that keeps the error where code asks for a field that it does not have."""

    error: KeyError | None = None

    def __missing__(self, key: Any) -> Any:
        self.error = KeyError(key)
        raise self.error


class _Empty(dict[Any, Any]):
    """A sample with the fields of another; it notes who takes a value from it."""

    looked = False

    def _look(self, key: object = None) -> None:
        caller = str(sys._getframe(2).f_globals.get("__name__"))  # noqa: SLF001 - the caller decides who looks
        if key != "__key__" or not caller.startswith("webdataset."):  # which copies the key to what comes out
            self.looked = True

    def __iter__(self) -> Iterator[Any]:  # so that ``dict(sample)`` and the like go through the methods below
        return super().__iter__()

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        self._look(key)
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        if key in self:
            self._look(key)
        return super().get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        if key in self:
            self._look(key)
        return super().pop(key, *default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        self._look(key)
        return super().setdefault(key, default)

    def items(self) -> Any:
        self._look()
        return super().items()

    def values(self) -> Any:
        self._look()
        return super().values()

    def popitem(self) -> Any:
        self._look()
        return super().popitem()

    def copy(self) -> Any:
        self._look()
        return super().copy()
