"""Whether stages fit each other: what each reads must have been there, or been written before it."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from wdsflow.shards.output_names import IMAGES

from .base import Sample, SampleStage, Stage
from .batch import Batch, Unbatch

AnyStage = Stage | Callable[[Iterable[Sample]], Iterable[Any]]

# What tars of images with captions usually hold, after webdataset has made extensions lower case.
USUAL = frozenset("jpg jpeg png webp gif bmp tif tiff avif jxl heic txt json cls".split())


class ContractError(ValueError):
    """Stages that do not fit each other, found before the first sample is read."""


def check_contract(stages: tuple[AnyStage, ...], source: Iterable[str]) -> None:
    """Raise ``ContractError`` if a stage reads what no sample can have by then.

    ``source`` are the fields that may be there at the start; "*" stands for any. A stage that is not one of ours may
    write anything.
    """
    there, gone = set(source), dict[str, str]()
    batched = False
    for number, stage in enumerate(stages, 1):
        place = f"stage {number} ({name_of(stage)})"
        if not isinstance(stage, Stage):
            there, gone, batched = {"*"}, {}, False
            continue
        if any(stage is other for other in stages[: number - 1]):
            raise ContractError(
                f"{place} is in the pipeline twice and would count both; use dataclasses.replace(stage)"
            )
        batched = _check_batching(stage, place, number, stages, batched=batched)
        for entry in sorted(stage.reads):
            names = entry.split(";")
            if not any(_may_be_there(name, there, gone) for name in names):
                raise ContractError(f"{place} reads {entry!r}: {_hint(entry, number, stages, there, gone)}")
        _pass_through(stage, place, there, gone)


def name_of(stage: object) -> str:
    """Return what a stage is called in messages and tables."""
    return str(getattr(stage, "name", None) or getattr(stage, "__qualname__", None) or type(stage).__name__)


def _may_be_there(name: str, there: set[str], gone: dict[str, str]) -> bool:
    return name == "*" or name in there or ("*" in there and not {name, "*"} & gone.keys())


def _pass_through(stage: Stage, place: str, there: set[str], gone: dict[str, str]) -> None:
    if "*" in stage.removes:
        there.clear()
        gone.clear()
    for name in stage.removes:
        there.discard(name)
        gone[name] = place
    for name in stage.writes:
        if ";" in name:  # written where it was, whichever it was
            continue
        there.add(name)
        gone.pop(name, None)
        if name == "*":
            gone.clear()


def _check_batching(stage: Stage, place: str, number: int, stages: tuple[AnyStage, ...], *, batched: bool) -> bool:
    if isinstance(stage, Unbatch):
        if not batched and number > 1 and all(isinstance(before, Stage) for before in stages[: number - 1]):
            raise ContractError(f"{place} takes batches apart, but gets samples: put Batch before it")
        return False
    if batched and isinstance(stage, (Batch, SampleStage)):
        raise ContractError(f"{place} takes samples, but gets batches: put it before Batch or after an Unbatch")
    return batched or isinstance(stage, Batch)


def _hint(entry: str, number: int, stages: tuple[AnyStage, ...], there: set[str], gone: dict[str, str]) -> str:
    names = entry.split(";")
    for name in (*names, "*"):
        if name in gone:
            return f"{gone[name]} removed it; put this stage before that one, or keep the field there"
    for later, stage in enumerate(stages[number:], number + 1):
        if isinstance(stage, Stage) and stage.writes & set(names):
            return f"stage {later} ({name_of(stage)}) writes it; put that one before"
    fields = ", ".join(sorted(there)) or "none"
    held = f"at that point there are {fields}"
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
