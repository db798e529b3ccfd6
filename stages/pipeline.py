"""Stages in sequence, with a check that each reads only fields that exist at that point."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import ClassVar

from wdsflow.shards.shard_names import IMAGES

from .base import Sample, SampleStage, Stage, StageCounts
from .batch import Batch, Unbatch

AnyStage = Stage | Callable[[Iterable[Sample]], Iterable[Sample]]

# Usual fields of tars of images with captions, in lower case as webdataset yields them.
USUAL = frozenset("jpg jpeg png webp gif bmp tif tiff avif jxl heic txt json cls".split())


class ContractError(ValueError):
    """Stages that do not fit together; raised before the first sample is read."""


def check_contract(stages: tuple[AnyStage, ...], source: Iterable[str]) -> None:
    """Raise ``ContractError`` if a stage reads a field that no sample can have at that point.

    ``source`` are the fields that samples may have at the start; "*" stands for any. A callable
    that is not a ``Stage`` may write any field.
    """
    there, removed_by = set(source), dict[str, str]()
    batched = False
    for number, stage in enumerate(stages, 1):
        place = f"stage {number} ({name_of(stage)})"
        if not isinstance(stage, Stage):
            there, removed_by, batched = {"*"}, {}, False
            continue
        if any(stage is other for other in stages[: number - 1]):
            raise ContractError(
                f"{place} is in the pipeline twice and would count both; use dataclasses.replace(stage)"
            )
        batched = _check_batching(stage, place, number, stages, batched=batched)
        for entry in sorted(stage.reads):
            names = set(entry.split(";"))
            unknown = names if "*" in there and "*" not in removed_by else set()
            if "*" not in names and not names & there and not unknown - removed_by.keys():
                raise ContractError(
                    f"{place} reads {entry!r}: {_hint(entry, number, stages, there, removed_by)}"
                )
        _update(there, removed_by, stage, place)


def name_of(stage: object) -> str:
    """Return the name of a stage for messages and tables."""
    return str(
        getattr(stage, "name", None) or getattr(stage, "__qualname__", None) or type(stage).__name__
    )


def _update(there: set[str], removed_by: dict[str, str], stage: Stage, place: str) -> None:
    """Update the fields that samples may have, and the removed ones with the place of the stage that removed them."""
    if "*" in stage.removes:
        there.clear()
        removed_by.clear()
    for name in stage.removes:
        there.discard(name)
        removed_by[name] = place
    for name in stage.writes:
        # Of alternatives, the one that existed is written.
        if ";" not in name:
            there.add(name)
            removed_by.pop(name, None)
    if "*" in stage.writes:
        removed_by.clear()


def _check_batching(
    stage: Stage, place: str, number: int, stages: tuple[AnyStage, ...], *, batched: bool
) -> bool:
    if isinstance(stage, Unbatch):
        if (
            not batched
            and number > 1
            and all(isinstance(before, Stage) for before in stages[: number - 1])
        ):
            raise ContractError(
                f"{place} takes batches apart, but gets samples: put Batch before it"
            )
        return False
    if batched and isinstance(stage, (Batch, SampleStage)):
        raise ContractError(
            f"{place} takes samples, but gets batches: put it before Batch or after an Unbatch"
        )
    return batched or isinstance(stage, Batch)


def _hint(
    entry: str,
    number: int,
    stages: tuple[AnyStage, ...],
    there: set[str],
    removed_by: dict[str, str],
) -> str:
    names = entry.split(";")
    for name in (*names, "*"):
        if name in removed_by:
            return f"{removed_by[name]} removed it; put this stage before that one, or keep the field there"
    for later, stage in enumerate(stages[number:], number + 1):
        if isinstance(stage, Stage) and stage.writes & set(names):
            return f"stage {later} ({name_of(stage)}) writes it; put that one before"
    held = f"at that point there are {', '.join(sorted(there)) or 'none'}"
    images = sorted(there & set(IMAGES.split(";")), key=IMAGES.split(";").index)
    texts = [name for name in ("txt", "text", "caption") if name in there]
    if "image" in names and images:
        return f"""{held}; put Rename({{"image": "{";".join(images)}"}}) before"""
    if {"text", "txt", "caption"} & set(names):
        if texts:
            return f"""{held}; put Rename({{"{names[0]}": "{texts[0]}"}}) before"""
        if "json" in there:
            target = "" if names[0] == "txt" else f', target="{names[0]}"'
            return f"{held}; put JsonText(json_text_key=...{target}) before, where the json holds captions"
    near = [match for name in names for match in get_close_matches(name, there, n=1)]
    if near:
        return f"{held}; did you mean {near[0]!r}?"
    return f"{held}; if shards hold it, say so: Pipeline(..., source=[...])"


@dataclass(frozen=True, init=False, repr=False)
class Pipeline:
    """Stages in sequence; itself a callable from samples to samples, which can be used like a stage.

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
                hint = (
                    "; unpack a list with Pipeline(*stages)"
                    if isinstance(stage, (list, tuple))
                    else ""
                )
                raise TypeError(f"{type(stage).__name__} is not a stage{hint}")
            flat.extend(stage.stages if isinstance(stage, Pipeline) else [stage])
        object.__setattr__(self, "stages", tuple(flat))
        object.__setattr__(
            self, "source", frozenset([source] if isinstance(source, str) else source)
        )
        check_contract(self.stages, self.source)

    def __call__(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Pass samples through all stages, lazily."""
        for stage in self.stages:
            samples = stage(samples)
        return iter(samples)

    @property
    def counts(self) -> StageCounts:
        """Samples in and out, and the reasons of dropped ones, which begin with the number of their stage."""
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
                named = {
                    f"{number}-{name_of(stage)}: {reason}": count
                    for reason, count in reasons.items()
                }
                getattr(result, kind).update(named)
        return result

    def describe(self) -> str:
        """Return a table of the stages: settings other than the defaults, and the fields read, written and removed."""
        rows = [["", "stage", "reads", "writes", "removes"]]
        for number, stage in enumerate(self.stages, 1):
            cells = (
                [stage.reads, stage.writes, stage.removes]
                if isinstance(stage, Stage)
                else [{"?"}] * 3
            )
            rows.append(
                [str(number), _shown(stage), *(", ".join(sorted(cell)) or "-" for cell in cells)]
            )
        return table(rows)

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
            rows.append(
                [
                    stage.name,
                    str(counts.seen),
                    str(counts.kept),
                    ", ".join(part for part in parts if part),
                ]
            )
        return table(rows, right={1, 2})

    def __repr__(self) -> str:
        return f"Pipeline({', '.join(repr(stage) if isinstance(stage, Stage) else name_of(stage) for stage in self.stages)})"

    def __str__(self) -> str:
        return self.describe()


def table(rows: list[list[str]], right: Collection[int] = ()) -> str:
    """Return rows as lines with columns of equal width; those in ``right`` are right-aligned."""
    aligns = [">" if column in right else "<" for column in range(len(rows[0]))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "  ".join(f"{{:{align}{width}}}" for align, width in zip(aligns, widths, strict=True))
    return "\n".join(form.format(*row).rstrip() for row in rows)


def _shown(stage: AnyStage) -> str:
    if not isinstance(stage, Stage):
        return name_of(stage)
    values = ((item, getattr(stage, item.name)) for item in fields(stage) if item.repr)
    changed = ", ".join(f"{item.name}={value!r}" for item, value in values if value != item.default)
    return f"{type(stage).__name__}({changed})"


def _listed(counter: Counter[str], label: str = "") -> str:
    return ", ".join(f"{label}{reason}: {count}" for reason, count in counter.most_common())
