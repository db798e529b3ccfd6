"""What to do about shards on which training does not begin, as commands."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.shell import escape
from wdsflow.training.feed.subset.subset_advice import terms_fix
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.stalls.field_fixes import (
    caption_fixes,
    image_fixes,
    inspect_command,
    likely_image_field,
    rerun_command,
    validate_command,
)
from wdsflow.validate.feed_verdict import STARVING
from wdsflow.validate.finding import Finding, advice_text
from wdsflow.validate.report.finding_groups import repair_step, repairs_with_codes
from wdsflow.validate.report.report import Report
from wdsflow.validate.rules.kit.base import Context
from wdsflow.validate.rules.kit.missing_fields import field_needs

from .judged_data import JudgedData
from .run_command import with_training_flags


def fixes_for(
    judged: JudgedData,
    report: Report,
    preview: Sequence[ShardEvidence],
    fatal: Sequence[Finding],
) -> list[str]:
    """Return the fixes, the likeliest first.

    Args:
        judged: the shards.
        report: on the shards, with the commands of its findings.
        preview: shards whose JSON was read.
        fatal: the findings for which training does not begin.
    """
    codes = {finding.code for finding in fatal}
    fixes = list(_field_fixes(judged, preview, codes))
    has_field_fix = bool(fixes)
    if not codes.isdisjoint({"P302", "P303"}):
        fixes += _share_fixes(judged.context, judged.options)
    fixes += _repairs(judged.options, report, field_located=has_field_fix)
    if not fixes and not judged.context.verdicts[0].usable:
        fixes.append(_look_at_shard(judged.context.evidence.shards))
    return list(dict.fromkeys(fixes))


def _field_fixes(
    judged: JudgedData, preview: Sequence[ShardEvidence], fatal_codes: set[str]
) -> Iterator[str]:
    """Yield commands that read a missing field from another location."""
    options = judged.options
    shards = judged.context.evidence.shards
    all_names = {name for shard in shards for name in shard.fields}
    # "*.json" stands for many names.
    names = sorted(name for name in all_names if not name.startswith("*."))
    absent: Sequence[str] = ()
    if "F101" in fatal_codes:
        absent = field_needs(judged.context)[0].absent
    lacks_image = "image" in absent
    lacks_caption = "caption" in absent
    caption_commands: list[str] = []
    if lacks_caption or not fatal_codes:
        image = likely_image_field(names) if lacks_image else ""
        note = ""
        if image:
            note = f"images may be in {escape(image, 40)}, "
            options = replace(options, image=image)
        caption_commands = [f"{note}{fix}" for fix in caption_fixes(options, names, preview)]
    yield from caption_commands
    if lacks_image and not caption_commands:
        yield from image_fixes(judged.options, names)


def _share_fixes(context: Context, options: FeedOptions) -> Iterator[str]:
    """Yield fixes for workers with too few samples.

    The predicate comes first if it keeps less than one batch.
    """
    usable = context.verdicts[0].usable
    arguments = context.arguments
    assert arguments is not None
    if options.ledger is not None and usable < arguments.batch_size * arguments.world_size:
        yield terms_fix(options, context.urls[0])
    if usable >= arguments.world_size:
        yield f"one share for all workers: {rerun_command(options, schedule='balanced')}"


def _repairs(options: FeedOptions, report: Report, *, field_located: bool) -> Iterator[str]:
    """Yield the planned repair, then the fixes of all errors.

    The errors of the refusal come first, as in a report.

    ``field_located``: another location of the missing field is known, so that no field needs
    another name.
    """
    for advice in report.advice:
        renames = "--rename" in (advice.options or ())
        if advice.command and not (field_located and renames):
            yield f"{advice_text([advice])}: {advice.command}"
    errors = report.errors
    if field_located:
        errors = [error for error in errors if error.code != "F101"]
    for repair, codes in sorted(
        repairs_with_codes(errors), key=lambda fix: STARVING.isdisjoint(fix[1])
    ):
        if repair.flags:
            new_command = rerun_command(with_training_flags(options, repair.flags))
            yield f"{repair.note}: {new_command}"
        else:
            yield f"{repair_step(repair, codes).line}: {repair.command}"


def _look_at_shard(shards: Sequence[ShardEvidence]) -> str:
    """Return how to see what is wrong with shards of which no sample is usable."""
    for shard in shards:
        if shard.runs.head is not None:
            return f"see what a sample holds: {inspect_command(shard.url)}"
    # The shards may end within their first samples.
    return f"no shard has a whole sample: fetch them again; to see what is wrong: {validate_command(shards[0].url)}"
