"""``wdsflow repair``: write valid shards from damaged ones."""

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.next_commands import new_shards_lines
from wdsflow.cli.shared.printing import print_lines
from wdsflow.cli.shared.progress_bars import progress
from wdsflow.cli.shared.refuse import refuse
from wdsflow.cli.shared.run_arguments import NewShards
from wdsflow.cli.shared.typed import Typed
from wdsflow.repair.repair_options import RepairOptions
from wdsflow.shards.shard import Shard
from wdsflow.text.options import option
from wdsflow.text.shell import escape, quote_path
from wdsflow.text.words import how_many

if TYPE_CHECKING:
    from wdsflow.repair.repair_plan import Step
    from wdsflow.repair.repair_report import RepairReport


@dataclass(frozen=True)
class Readers:
    """The readers for which a repair is planned."""

    readers: Sequence[str] = option(
        ("open-clip",),
        "Reader for which the changes are chosen if no option names them, as for validate; repeatable.",
        "--for",
        metavar="READER",
    )


def repair(typed: Typed, shards: NewShards, readers: Readers, options: RepairOptions) -> None:
    """Write valid shards, with sizes.json and __len__ next to them.

    Without options that name changes, finds those after which most samples train, and makes them
    all; --dry-run shows them. Never loses contents unless an option says so. Shards that need no
    change are copied byte for byte; the inputs never change. The same command resumes an
    interrupted run.

    Exit status: 0; 1 if something could not be read, no sample was written, other samples were
    written than planned, or an option changed nothing; 2 if the command is wrong, or nothing could
    be read or written.
    """
    from wdsflow.repair.run_repair import repair_shards

    # Of Pillow; wdsflow checks such images.
    warnings.filterwarnings("ignore", message=".*decompression bomb")
    urls = shards.urls
    with shards.folder(dry_run=options.dry_run) as folder:
        options = _with_plan(urls, folder, readers.readers, options, typed)
        with progress() as begin:
            report = repair_shards(urls, folder, **vars(replace(options, begin=begin)))
        look = typed.other_command("validate", *urls)
        if all(shard.unread for shard in report.shards):
            refuse(_nothing_read_message(report), f"see what is wrong: {look}")
        for step in report.steps_without_effect:
            print(
                f"wdsflow: {escape(step.option, 200)} changed nothing: {_why_without_effect(step, report)}",
                file=sys.stderr,
            )
        if report.difference:
            print(
                f"wdsflow: {report.difference}; to see which are missing: {look}", file=sys.stderr
            )
        _show(report, folder, look)
    sys.exit(
        int(report.lost or bool(report.steps_without_effect or report.warning or report.difference))
    )


def _with_plan(
    urls: list[str], folder: Path, readers: Sequence[str], options: RepairOptions, typed: Typed
) -> RepairOptions:
    """Return the options, with a plan if they name no change to samples.

    Exits if captions are not where the options say.
    """
    from wdsflow.repair.repair_record import recorded_plan
    from wdsflow.shards.urls import expand_existing
    from wdsflow.validate.repair_planning import plan_repair

    if options.caption is not None:
        options = replace(options, caption=_caption(urls, options, typed))
    if options.structure_only or options.steps().steps():
        return options
    shards = expand_existing(urls, allow_pipe=options.allow_pipe)
    # An interrupted run resumes with its own plan.
    plan = None if options.restart else recorded_plan(folder, shards, readers)
    if plan is None:
        plan = plan_repair(urls, readers, allow_pipe=options.allow_pipe)
    for step in plan.steps():
        print_lines(f"plan: {escape(step.action, 200)}")
    if plan.costs:
        look = typed.other_command("validate", *urls) + "".join(
            f" --for {name}" for name in readers
        )
        print(
            f"wdsflow: this repair costs samples: {escape(plan.costs, 500)};"
            f" to see why, before you use its output: {look}",
            file=sys.stderr,
        )
    return replace(options, plan=plan)


def _why_without_effect(step: "Step", report: "RepairReport") -> str:
    option, name = step.words[0], step.words[-1].partition("=")[0]
    look = f"to see what they have: wdsflow inspect {quote_path(report.shards[0].url)}"
    if option == "--pair-names":
        return f"no names without a partner evidently belong together; {look}"
    if option == "--name-images":
        return f"no image lacks its name; {look}"
    if option == "--caption-encoding":
        return f"no caption that is not UTF-8 is {escape(name, 100)}; {look}"
    if option == "--rename-bad":
        return f"no sample has a field {escape(name, 100)} that does not decode; {look}"
    if option == "--caption":
        return f"no sample without a caption has one there; {look}"
    blocked = [
        reason for reason in report.merged("missed") if reason.startswith(f"{name} not renamed: ")
    ]
    if blocked:
        return escape(blocked[0].partition(": ")[2], 200)
    return f"no sample has a field {escape(name, 100)}; {look}"


def _nothing_read_message(report: "RepairReport") -> str:
    """Return the message of a repair that could read no shard: the first one, and why."""
    first = report.shards[0]
    path = Shard.from_text(first.url).path
    shards = first.url if path is None else os.path.abspath(path)
    more = len(report.shards) - 1
    if more:
        shards += f" and {how_many(more, 'more shard')}"
    return f"nothing could be read: {shards}: {first.lost[0]}"


def _caption(urls: list[str], options: RepairOptions, typed: Typed) -> str:
    """Return the member and name in json that hold captions.

    Exits if no sample has a caption there. Raises ValueError, NoShards.
    """
    from wdsflow.filtering.inputs.caption_search import NoCaptions, find_captions
    from wdsflow.filtering.inputs.check_inputs import AUTO, check_captions
    from wdsflow.filtering.recipe.recipe import Recipe
    from wdsflow.repair.caption_check import takes_captions
    from wdsflow.shards.caption_field import parse_caption_field
    from wdsflow.shards.urls import expand

    caption = options.caption or ""
    allow_pipe = options.allow_pipe
    shards = expand(urls, allow_pipe=allow_pipe).urls
    if caption == AUTO:
        captions = find_captions(shards, Recipe(), like="json:caption", allow_pipe=allow_pipe)
        if captions is None or ":" not in captions.fields:
            hint = "" if captions is None else str(captions)
            refuse("--caption auto: no json member holds captions", hint)
        print(f"wdsflow: --caption auto: {escape(str(captions), 500)}", file=sys.stderr)
        return captions.fields.partition("|")[0]
    parse_caption_field(caption)
    try:
        check_captions(shards, Recipe(caption=caption), allow_pipe=allow_pipe)
    except NoCaptions as error:
        # Other steps may give json the name under which captions are looked for.
        if takes_captions(shards, options.steps(), allow_pipe=allow_pipe):
            return caption
        if error.nearest is None:
            refuse(str(error))
        member = error.nearest.fields.partition("|")[0]
        again = typed.command_with(caption=member if ":" in member else None)
        refuse(str(error), f"{error.nearest}: {again}" if member else "")
    return caption


def _show(report: "RepairReport", out: Path, look: str) -> None:
    print_lines(*str(report).splitlines())
    if not report.dry_run and report.total("samples_written"):
        print_lines(*new_shards_lines(out, report.missing_outputs))
    elif report.warning and report.total("samples"):
        print_lines(f"next: {look}")
