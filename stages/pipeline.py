"""Stages one after the other."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from .base import Counts, Sample, Stage
from .contract import USUAL, AnyStage, check_contract, name_of


@dataclass(frozen=True, init=False, repr=False)
class Pipeline:
    """Stages one after the other; itself a callable from samples to samples, which fits wherever a stage fits.

    Built, it has been checked: ``ContractError`` where a stage reads what no sample can have by then, with a hint.
    ``source`` names the fields that shards may hold: by default images of the usual extensions, txt, json and cls;
    "*" for any. A callable that is not one of our stages is taken as it is; it may write anything, and counts nothing.
    Pipelines inside pipelines become their stages.

    >>> from wdsflow.stages import HasFields, Rename
    >>> pipeline = Pipeline(HasFields.of("jpg;png", "txt"), Rename.of(image="jpg;png", text="txt"))
    >>> list(pipeline([{"__key__": "a", "png": b"...", "txt": b"a cat"}, {"__key__": "b", "txt": b"a dog"}]))
    [{'__key__': 'a', 'image': b'...', 'text': b'a cat'}]
    >>> print(pipeline.report())
    stage       seen  kept  dropped and failed
    has_fields     2     1  no-jpg;png: 1
    rename         1     1
    """

    name: ClassVar[str] = "pipeline"

    stages: tuple[AnyStage, ...]
    source: frozenset[str]

    def __init__(self, *stages: "AnyStage | Pipeline", source: str | Iterable[str] = USUAL) -> None:
        flat: list[AnyStage] = []
        for stage in stages:
            if not callable(stage):
                hint = "; unpack a list with Pipeline(*stages)" if isinstance(stage, (list, tuple)) else ""
                raise TypeError(f"{type(stage).__name__} is not a stage{hint}")
            flat.extend(stage.stages if isinstance(stage, Pipeline) else [stage])
        object.__setattr__(self, "stages", tuple(flat))
        object.__setattr__(self, "source", frozenset([source] if isinstance(source, str) else source))
        check_contract(self.stages, self.source)

    def __call__(self, samples: Iterable[Sample]) -> Iterator[Any]:
        """Pass samples through all stages, lazily."""
        for stage in self.stages:
            samples = stage(samples)
        return iter(samples)

    @property
    def counts(self) -> Counts:
        """What went in and came out, and why samples went on the way; reasons carry the number of their stage."""
        counted = [(number, stage) for number, stage in enumerate(self.stages, 1) if isinstance(stage, Stage)]
        if not counted:
            return Counts()
        result = Counts(counted[0][1].counts.seen, counted[-1][1].counts.kept)
        for number, stage in counted:
            for mine, theirs in [
                (result.dropped, stage.counts.dropped),
                (result.failed, stage.counts.failed),
                (result.noted, stage.counts.noted),
            ]:
                mine.update({f"{number}-{name_of(stage)}: {reason}": count for reason, count in theirs.items()})
        return result

    def describe(self) -> str:
        """Return a table of the stages: settings other than the defaults, and what each reads, writes and removes."""
        rows = [["", "stage", "reads", "writes", "removes"]]
        for number, stage in enumerate(self.stages, 1):
            cells = [stage.reads, stage.writes, stage.removes] if isinstance(stage, Stage) else [{"?"}] * 3
            rows.append([str(number), _shown(stage), *(", ".join(sorted(cell)) or "-" for cell in cells)])
        return table(rows)

    def report(self) -> str:
        """Return a table of what became of samples so far, in this process."""
        rows = [["stage", "seen", "kept", "dropped and failed"]]
        for stage in self.stages:
            if not isinstance(stage, Stage):
                rows.append([name_of(stage), "?", "?", "not counted"])
                continue
            counts = stage.counts
            parts = [_listed(counts.dropped), _listed(counts.failed, "failed "), _listed(counts.noted, "noted ")]
            rows.append([stage.name, str(counts.seen), str(counts.kept), ", ".join(part for part in parts if part)])
        return table(rows, right={1, 2})

    def __repr__(self) -> str:
        return f"Pipeline({', '.join(repr(stage) if isinstance(stage, Stage) else name_of(stage) for stage in self.stages)})"

    def __str__(self) -> str:
        return self.describe()


def table(rows: list[list[str]], right: Iterable[int] = ()) -> str:
    """Return rows as lines with columns of equal width; those in ``right`` are set to the right."""
    aligned = set(right)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if column in aligned else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def _shown(stage: AnyStage) -> str:
    if not isinstance(stage, Stage):
        return name_of(stage)
    values = {item.name: getattr(stage, item.name) for item in fields(stage) if item.repr}
    defaults = {item.name: item.default for item in fields(stage)}
    changed = ", ".join(f"{name}={value!r}" for name, value in values.items() if value != defaults[name])
    return f"{type(stage).__name__}({changed})"


def _listed(counter: Counter[str], label: str = "") -> str:
    return ", ".join(f"{label}{reason}: {count}" for reason, count in counter.most_common())
