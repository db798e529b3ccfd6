"""Repairs that leave samples out: with the options that keep the most, and the number of remaining samples."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from wdsflow.readers.base import Reader, split_keys
from wdsflow.shards.output_names import IMAGE_FIELDS

from ..finding import Finding, Repair, promises
from ..rules.kit.base import Context
from ..rules.kit.rule_commands import leave_out, repair
from .changes import CAPTION, ShapeEdits, caption_edits, together, without_one
from .promises import Trial


def keep_most(findings: Sequence[Finding], context: Context, trial: Callable[[], Trial] | None = None) -> list[Finding]:
    """Return findings whose repairs with ``--drop-bad`` first put image and caption into the fields that it checks.

    Such a repair reads all shards. It is omitted if no sample would remain.

    Args:
        findings: findings of the rules.
        context: the input of the rules.
        trial: returns the object that counts remaining samples; None if contents were not read.
    """
    if not any(map(_drops, findings)):
        return list(findings)
    repair = _as_read(context) if trial is None else _tried(context, trial())
    return [replace(each, repair=repair) if _drops(each) else each for each in findings]


def _drops(finding: Finding) -> bool:
    return finding.repair is not None and "--drop-bad" in finding.repair.options


def _as_read(context: Context) -> Repair | None:
    """Return the repair that keeps captions in the fields of the readers."""
    places = [_place(context, reader) for reader in context.readers]
    if not all(verdict.usable for verdict in context.verdicts) or None in places:
        return None
    edits = next((each for each in places if each is not None and each.caption), ShapeEdits())
    return leave_out(context.targets(), *edits.options())


def _place(context: Context, reader: Reader) -> ShapeEdits | None:
    """Return the edits that write txt members from a reader's captions; None if a repair does not know its fields."""
    fields = {name for shard in context.evidence.shards for name in shard.fields}
    options = reader.options
    if reader.pairs_with != "caption":
        return None
    if not set(split_keys(options.image_key)) & set(IMAGE_FIELDS):
        return None
    if options.json_text_key:
        return ShapeEdits(options.json_text_key, () if "json" in fields or "jsn" not in fields else (("jsn", "json"),))
    return ShapeEdits() if CAPTION in split_keys(options.text_key) else None


def _tried(context: Context, trial: Trial) -> Repair | None:
    """Return the repair after which the most samples reach a batch, with their number."""
    read = [each for reader in context.readers if (each := _place(context, reader)) is not None]
    captions = caption_edits(trial.repaired)
    renames = [ShapeEdits(rename=((old, new),), judged=trial.judged) for old, new in trial.renames]
    ideas = [*([captions] if captions is not None else []), *renames]
    edits = [replace(each, drop_bad=True) for each in (ShapeEdits(), *read, *ideas, together(ideas))]

    def left(edits: ShapeEdits) -> int:
        return sum(trial.after_repair(verdict, edits) or 0 for verdict in context.verdicts)

    best = max(edits, key=left, default=ShapeEdits())
    while less := next((each for each in without_one(best) if left(each) == left(best)), None):
        best = less
    usable = [(verdict, trial.after_repair(verdict, best)) for verdict in context.verdicts]
    labels = [(verdict, number) for verdict, number in usable if verdict.pairs_with == "label"]
    if not left(best) or any((number or 0) < verdict.usable for verdict, number in labels):
        return None  # samples without a caption are left out, which readers of labels can use
    found = [trial.repair(verdict, "", number, best) for verdict, number in usable if number]
    safe = replace(best, drop_bad=False)
    if all(number == verdict.samples == trial.after_repair(verdict, safe) for verdict, number in usable):
        return repair(context.targets(), *safe.options(), note=promises(found))  # there is nothing to leave out
    return leave_out(context.targets(), *replace(best, drop_bad=False).options(), number=promises(found))
