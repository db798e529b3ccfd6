"""The base of stages: frozen dataclasses that map an iterator of samples to another.

A sample is webdataset's dict: ``__key__``, ``__url__`` and fields by extension. A stage needs no
runtime: it works in a ``wds.DataPipeline``, in a DataLoader's worker, or called directly.
"""

from abc import ABCMeta, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, get_args, get_origin

Sample = dict[str, Any]
OnError = Literal["raise", "drop"]


class Dropped(Exception):
    """Raised by a stage's ``apply`` to drop one sample, for an expected reason.

    ``reason`` is a slug such as "no-caption": reasons are counted, so there must be few of them.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StageError(ValueError):
    """A sample that a stage cannot handle.

    The message names stage, sample and shard. ``slug`` is the error's name in the counts.
    """

    def __init__(self, slug: str, message: str) -> None:
        super().__init__(message)
        self.slug = slug

    def __reduce__(self) -> tuple[type["StageError"], tuple[str, str]]:
        # By default only the message is pickled: an error
        # without slug would break the process pool.
        return type(self), (self.slug, str(self))


@dataclass
class StageCounts:
    """The sample counts of a stage.

    After a pass, ``seen == kept + dropped.total() + failed.total()``.

    During a pass, samples in a buffer (Shuffle, Batch) are only seen. Batches count as the samples
    in them.
    """

    seen: int = 0
    kept: int = 0
    # By reason.
    dropped: Counter[str] = field(default_factory=Counter)
    # By error.
    failed: Counter[str] = field(default_factory=Counter)
    # Changes of kept samples; not part of the sum.
    noted: Counter[str] = field(default_factory=Counter)

    def __reduce__(self) -> tuple[type["StageCounts"], tuple[()]]:
        # A copy in another process counts its own samples.
        return StageCounts, ()


def check_choice(owner: str, setting: str, value: object, kind: object) -> None:
    """Raise ValueError if a setting's value is not in its ``Literal`` type."""
    if get_origin(kind) is Literal and value not in (choices := get_args(kind)):
        raise ValueError(
            f"{owner}: {setting}={value!r} is not one of {', '.join(map(repr, choices))}"
        )


class _FactsMeta(ABCMeta):
    # Not ``__init_subclass__``: ABCMeta of Python 3.10
    # takes the keyword ``name`` for its own parameter.
    def __new__(
        mcls,
        class_name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        **facts: object,
    ) -> Any:
        cls = super().__new__(mcls, class_name, bases, namespace)
        for name, value in facts.items():
            if not any(name in vars(base).get("__annotations__", ()) for base in cls.__mro__):
                raise TypeError(f"{class_name}: {name!r} is not an attribute of the class")
            setattr(cls, name, value)
        return cls

    def __init__(
        cls, class_name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **_: object
    ) -> None:
        super().__init__(class_name, bases, namespace)


class ClassFacts(metaclass=_FactsMeta):
    """An abstract class whose subclasses can set class attributes by keyword.

    For example ``class Drop(Stage, name="drop")``.
    """


@dataclass(frozen=True, kw_only=True)
class Stage(ClassFacts):
    """Base of all stages. ``reads``, ``writes`` and ``removes`` name fields; "*" stands for any.

    The fields come from the settings named by ``read_by``, ``written_by`` and ``removed_by``.
    """

    name: ClassVar[str]
    read_by: ClassVar[str] = ""
    written_by: ClassVar[str] = ""
    removed_by: ClassVar[str] = ""
    # init=False: dataclasses.replace makes a stage with counts of its own.
    counts: StageCounts = field(
        default_factory=StageCounts, init=False, compare=False, hash=False, repr=False
    )

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown choice.

        A misspelt "drop" must not keep samples. Subclasses call this first.
        """
        for item in fields(self):
            check_choice(self.name, item.name, getattr(self, item.name), item.type)

    @property
    def reads(self) -> frozenset[str]:
        """Required fields; alternatives are joined by a semicolon: ``jpg;png``."""
        return self._fields_of_setting(self.read_by)

    @property
    def writes(self) -> frozenset[str]:
        """Return the fields that exist afterwards.

        Of alternatives, joined by a semicolon, the one that existed is written.
        """
        return self._fields_of_setting(self.written_by)

    @property
    def removes(self) -> frozenset[str]:
        """Fields that no longer exist afterwards."""
        return self._fields_of_setting(self.removed_by)

    def _fields_of_setting(self, setting: str) -> frozenset[str]:
        names = getattr(self, setting) if setting else ()
        return frozenset((names,) if isinstance(names, str) else names)

    def _count_failure(self, sample: Sample, error: StageError, on_error: OnError) -> None:
        """Count a sample with an error.

        Raises StageError with its key and shard if ``on_error`` is "raise".
        """
        self.counts.failed[error.slug] += 1
        if on_error == "raise":
            place = f"{self.name}: sample {sample.get('__key__')!r} of {sample.get('__url__')!r}"
            raise StageError(error.slug, f"{place}: {error}") from error

    @abstractmethod
    def __call__(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yield the kept samples, in order and lazily."""


@dataclass(frozen=True, kw_only=True)
class SampleStage(Stage):
    """A stage that works on one sample at a time.

    ``on_error``: whether a bad sample ends the run or is counted.
    """

    on_error: OnError = "raise"

    @abstractmethod
    def apply(self, sample: Sample) -> Sample:
        """Return the changed sample.

        Raises ``Dropped`` to drop it, ``StageError`` if it cannot be handled.

        The given dict may be changed; its values may not.
        """

    def __call__(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        counts = self.counts
        for sample in samples:
            counts.seen += 1
            try:
                result = self.apply(sample)
            except Dropped as drop:
                counts.dropped[drop.reason] += 1
                continue
            except StageError as error:
                self._count_failure(sample, error, self.on_error)
                continue
            counts.kept += 1
            yield result
