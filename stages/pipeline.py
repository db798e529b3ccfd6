"""Stages in sequence."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import ClassVar

from .base import Sample, Stage, StageCounts
from .field_contract import AnyStage, ContractError, check_contract, name_of

__all__ = ["USUAL", "ContractError", "Pipeline", "format_table"]

# Usual fields of tars of images with captions, in lower case as webdataset yields them.
USUAL = frozenset("jpg jpeg png webp gif bmp tif tiff avif jxl heic txt json cls".split())


@dataclass(frozen=True, init=False, repr=False)
class Pipeline:
    """Stages in sequence.

    A pipeline is itself a callable from samples to samples, and can be used like a stage.

    Raises ``ContractError``, with a hint, if a stage reads a field that no sample can have at that
    point. ``source`` names the fields that shards may hold: by default images of the usual
    extensions, txt, json and cls; "*" for any. Any other callable from samples to samples may be a
    stage, too; it may write any field, and its samples are not counted. Pipelines inside pipelines
    are replaced by their stages.

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
                hint = ""
                if isinstance(stage, (list, tuple)):
                    hint = "; unpack a list with Pipeline(*stages)"
                raise TypeError(f"{type(stage).__name__} is not a stage{hint}")
            if isinstance(stage, Pipeline):
                flat.extend(stage.stages)
            else:
                flat.append(stage)
        names = [source] if isinstance(source, str) else source
        # The dataclass is frozen.
        object.__setattr__(self, "stages", tuple(flat))
        object.__setattr__(self, "source", frozenset(names))
        check_contract(self.stages, self.source)

    def __call__(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Pass samples through all stages, lazily."""
        for stage in self.stages:
            samples = stage(samples)
        return iter(samples)

    @property
    def counts(self) -> StageCounts:
        """The numbers of samples in and out, and the reasons of dropped samples.

        A reason begins with the number of its stage.
        """
        counted = [
            (number, stage)
            for number, stage in enumerate(self.stages, 1)
            if isinstance(stage, Stage)
        ]
        if not counted:
            return StageCounts()
        result = StageCounts(counted[0][1].counts.seen, counted[-1][1].counts.kept)
        for number, stage in counted:
            for kind in ("dropped", "failed", "noted"):
                reasons: Counter[str] = getattr(stage.counts, kind)
                totals: Counter[str] = getattr(result, kind)
                for reason, count in reasons.items():
                    totals[f"{number}-{name_of(stage)}: {reason}"] += count
        return result

    def describe(self) -> str:
        """Return a table of the stages.

        It has settings other than the defaults, and the fields that are read, written and removed.
        """
        rows = [["", "stage", "reads", "writes", "removes"]]
        for number, stage in enumerate(self.stages, 1):
            row = [str(number), _shown(stage)]
            if isinstance(stage, Stage):
                row += [_names(stage.reads), _names(stage.writes), _names(stage.removes)]
            else:
                row += ["?", "?", "?"]
            rows.append(row)
        return format_table(rows)

    def report(self) -> str:
        """Return a table of the counts of this process so far."""
        rows = [["stage", "seen", "kept", "dropped and failed"]]
        for stage in self.stages:
            if not isinstance(stage, Stage):
                rows.append([name_of(stage), "?", "?", "not counted"])
                continue
            counts = stage.counts
            parts = [
                _listed(counts.dropped),
                _listed(counts.failed, "failed "),
                _listed(counts.noted, "noted "),
            ]
            reasons = ", ".join(part for part in parts if part)
            rows.append([stage.name, str(counts.seen), str(counts.kept), reasons])
        return format_table(rows, right={1, 2})

    def __repr__(self) -> str:
        stages = ", ".join(map(_shown_exactly, self.stages))
        return f"Pipeline({stages})"

    def __str__(self) -> str:
        return self.describe()


def format_table(rows: list[list[str]], right: Collection[int] = ()) -> str:
    """Return rows as lines with columns of equal width; those in ``right`` are right-aligned."""
    aligns = [">" if column in right else "<" for column in range(len(rows[0]))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "  ".join(f"{{:{align}{width}}}" for align, width in zip(aligns, widths, strict=True))
    return "\n".join(form.format(*row).rstrip() for row in rows)


def _names(fields: Iterable[str]) -> str:
    return ", ".join(sorted(fields)) or "-"


def _shown_exactly(stage: AnyStage) -> str:
    return repr(stage) if isinstance(stage, Stage) else name_of(stage)


def _shown(stage: AnyStage) -> str:
    """Return a stage with the settings that differ from the defaults."""
    if not isinstance(stage, Stage):
        return name_of(stage)
    changed = []
    for item in fields(stage):
        value = getattr(stage, item.name)
        if item.repr and value != item.default:
            changed.append(f"{item.name}={value!r}")
    return f"{type(stage).__name__}({', '.join(changed)})"


def _listed(counter: Counter[str], label: str = "") -> str:
    return ", ".join(f"{label}{reason}: {count}" for reason, count in counter.most_common())
