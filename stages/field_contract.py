"""Checks that each stage of a pipeline reads only fields that exist at that point."""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from wdsflow.shards.shard_names import IMAGES

from .base import Sample, SampleStage, Stage
from .batch import Batch, Unbatch

AnyStage = Stage | Callable[[Iterable[Sample]], Iterable[Sample]]

# Fields that may hold a caption.
_CAPTIONS = ("txt", "text", "caption")


class ContractError(ValueError):
    """Stages that do not fit together; raised before the first sample is read."""


def check_contract(stages: Sequence[AnyStage], source: Iterable[str]) -> None:
    """Raise ``ContractError`` if a stage reads a field that no sample can have at that point.

    ``source`` are the fields that samples may have at the start; "*" stands for any. A callable
    that is not a ``Stage`` may write any field.
    """
    samples = _SampleFields(set(source))
    for number, stage in enumerate(stages, 1):
        if not isinstance(stage, Stage):
            samples = _SampleFields({"*"})
            continue
        title = f"stage {number} ({name_of(stage)})"
        if any(stage is other for other in stages[: number - 1]):
            raise ContractError(
                f"{title} is in the pipeline twice and would count both; use dataclasses.replace(stage)"
            )
        _check_batching(stage, title, stages[: number - 1], batched=samples.batched)
        for entry in sorted(stage.reads):
            if not samples.may_have(entry):
                hint = _hint(entry, number, stages, samples)
                raise ContractError(f"{title} reads {entry!r}: {hint}")
        samples.pass_through(stage, title)


def name_of(stage: object) -> str:
    """Return the name of a stage for messages and tables."""
    name = getattr(stage, "name", None) or getattr(stage, "__qualname__", None)
    return str(name or type(stage).__name__)


class _SampleFields:
    """What is known of the samples between two stages."""

    def __init__(self, fields: set[str]) -> None:
        # Names that samples may have; "*" stands for any.
        self.fields = fields
        # Removed names, with the stages that removed them.
        self.removed_by: dict[str, str] = {}
        # They are batches.
        self.batched = False

    def may_have(self, entry: str) -> bool:
        """Return whether a sample may have one of the alternatives of an entry."""
        names = set(entry.split(";"))
        if "*" in names or names & self.fields:
            return True
        has_any = "*" in self.fields and "*" not in self.removed_by
        return has_any and bool(names - self.removed_by.keys())

    def pass_through(self, stage: Stage, title: str) -> None:
        """Update for a stage."""
        if "*" in stage.removes:
            self.fields.clear()
            self.removed_by.clear()
        for name in stage.removes:
            self.fields.discard(name)
            self.removed_by[name] = title
        for name in stage.writes:
            # Of alternatives, the one that existed is written.
            if ";" not in name:
                self.fields.add(name)
                self.removed_by.pop(name, None)
        if "*" in stage.writes:
            self.removed_by.clear()
        if isinstance(stage, Unbatch):
            self.batched = False
        elif isinstance(stage, Batch):
            self.batched = True


def _check_batching(stage: Stage, title: str, before: Sequence[AnyStage], *, batched: bool) -> None:
    """Raise ContractError if a stage gets batches instead of samples, or the reverse."""
    if isinstance(stage, Unbatch):
        # Other callables may make batches, and so may what is before the pipeline.
        if before and not batched and all(isinstance(other, Stage) for other in before):
            raise ContractError(
                f"{title} takes batches apart, but gets samples: put Batch before it"
            )
    elif batched and isinstance(stage, (Batch, SampleStage)):
        raise ContractError(
            f"{title} takes samples, but gets batches: put it before Batch or after an Unbatch"
        )


def _hint(entry: str, number: int, stages: Sequence[AnyStage], samples: _SampleFields) -> str:
    names = entry.split(";")
    for name in (*names, "*"):
        if name in samples.removed_by:
            return f"{samples.removed_by[name]} removed it; put this stage before that one, or keep the field there"
    for later, stage in enumerate(stages[number:], number + 1):
        if isinstance(stage, Stage) and stage.writes & set(names):
            return f"stage {later} ({name_of(stage)}) writes it; put that one before"
    fields = samples.fields
    state = f"at that point there are {', '.join(sorted(fields)) or 'none'}"
    images = [name for name in IMAGES.split(";") if name in fields]
    if "image" in names and images:
        return f"""{state}; put Rename({{"image": "{";".join(images)}"}}) before"""
    if set(_CAPTIONS) & set(names):
        captions = [name for name in _CAPTIONS if name in fields]
        if captions:
            return f"""{state}; put Rename({{"{names[0]}": "{captions[0]}"}}) before"""
        if "json" in fields:
            target = "" if names[0] == "txt" else f', target="{names[0]}"'
            return f"{state}; put JsonText(json_text_key=...{target}) before, where the json holds captions"
    for name in names:
        near = get_close_matches(name, fields, n=1)
        if near:
            return f"{state}; did you mean {near[0]!r}?"
    return f"{state}; if shards hold it, say so: Pipeline(..., source=[...])"
