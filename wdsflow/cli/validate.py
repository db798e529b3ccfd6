"""``wdsflow validate``: will these shards train?"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from wdsflow.cli.shared.advice_on_shards import refuse_no_shards, refuse_none_read
from wdsflow.cli.shared.advice_on_tables import (
    advise_on_joined_table,
    advise_on_mismatch,
    refuse_empty_join,
)
from wdsflow.cli.shared.output_files import check_output, is_device, write_output
from wdsflow.cli.shared.printing import console, print_lines
from wdsflow.cli.shared.progress_bars import progress
from wdsflow.cli.shared.refuse import refuse
from wdsflow.cli.shared.run_arguments import Urls
from wdsflow.cli.shared.typed import Typed, unused_path
from wdsflow.shards.shard_names import SUFFIXES
from wdsflow.text.options import OTHER, option
from wdsflow.text.words import enumeration, how_many
from wdsflow.validate.check_options import CheckOptions, SampledOptions

if TYPE_CHECKING:
    from wdsflow.stages.caption_sources import Captions
    from wdsflow.validate.report import Report

Format = Literal["text", "json", "sarif", "github", "html"]
# Options that a check of random samples takes.
_OF_SAMPLED = frozenset(
    {
        "urls",
        "level",
        "jobs",
        "form",
        "confidence",
        "max_loss",
        "seed",
        "readers",
        "engine",
        "address",
    }
)


@dataclass(frozen=True)
class OutputFiles:
    """Outputs in addition to, or in place of, a report on standard output."""

    form: Format = option(
        "text",
        "Format of the report: text, json, sarif, github or html.",
        "--format",
        metavar="FORMAT",
    )
    output: Path | None = option(
        None, "Write the report to this file, and print a summary.", metavar="FILE"
    )
    write_baseline: Path | None = option(
        None, "Write all findings to this file, as the known ones.", metavar="FILE", panel=OTHER
    )
    print_schema: bool = option(
        False, "Print the JSON Schema of --format json, and exit.", panel=OTHER
    )


def validate(
    typed: Typed, given: Urls, options: CheckOptions, files: OutputFiles, sampled: SampledOptions
) -> None:
    """Report whether shards will train, why not, and what to do.

    Arguments after -- are those of open_clip_train. They add a forecast of the training run:

    wdsflow validate --world-size 8 -- --train-data "{000..042}.tar" --workers 6

    With --join, it reports what wdsflow train would train on with the fields of a table.

    Exit status: 0 if no error was found; 1 if errors were found; 2 if the command is wrong, nothing
    could be read, or your own loader cannot be judged.
    """
    if files.print_schema:
        from wdsflow.validate.report import schema

        print(schema(), end="")
        return
    training = typed.after_dashes
    refuse_empty_join(options, typed, _captions(options))
    if sampled.confidence is not None:
        _sampled(given.urls or [], typed, options, sampled)
    if "seed" in typed.given:
        refuse(
            "--seed is for a check of random samples",
            f"such as: {typed.command_with(confidence='99%')}",
        )
    _check_files(typed, files)
    if options.check and not options.pipeline:
        refuse(
            "--check asks about your loader: name it", typed.command_with(pipeline="train.py:make")
        )
    if options.samples is not None:
        _check_samples(typed, options)
    if options.pipeline and "readers" not in typed.given:
        options = replace(options, readers=())
    baseline = None if files.write_baseline else _must_load(options.baseline)
    options = replace(options, arguments=training, baseline=baseline)
    report = _check(given.urls or _train_data(training or []), typed, options)
    if files.write_baseline:
        report = _accept(report, files.write_baseline)
    _print_report(report, files.form, files.output, typed)
    sys.exit(report.exit_status)


def _captions(options: CheckOptions) -> "Captions | None":
    """Return where captions are, None if that is left to the training command."""
    from wdsflow.stages.caption_sources import parse_captions

    try:
        return None if options.caption is None else parse_captions(options.caption)
    except ValueError as error:
        refuse(str(error))


def _check_samples(typed: Typed, options: CheckOptions) -> None:
    """Refuse --samples where it limits nothing."""
    if not options.pipeline:
        hint = f"such as: {typed.command_with(pipeline='train.py:make')}"
        refuse("--samples is how many samples of your own pipeline are read: name it", hint)
    if options.check:
        refuse(
            "--samples and --check: a check reads its own part of the shards",
            typed.command_with(samples=None),
        )
    if options.level == "full":
        refuse(
            "--level full reads all samples, and --samples only some",
            typed.command_with(samples=None),
        )


def _sampled(
    urls: list[str], typed: Typed, options: CheckOptions, sampled: SampledOptions
) -> NoReturn:
    """Check random samples, without other checks."""
    from wdsflow.validate.sampled.sampled_check import sampled_check

    others = sorted(typed.given.keys() - _OF_SAMPLED)
    has_form = typed.given.get("form", "text") in ("text", "json")
    if others or typed.after_dashes is not None or not has_form:
        hint = "leave out what follows --"
        if typed.after_dashes is None:
            hint = typed.command_with(**dict.fromkeys([*others, "form"]))
        allowed = "--max-loss, --seed, --for, --level, --jobs, --engine, --address, and --format text or json"
        refuse(
            f"--confidence judges random samples, without {_unsupported_options(others, typed)}: it takes only {allowed}",
            hint,
        )
    with _errors_explained(typed, options):
        result = sampled_check(urls, sampled, options)
    if typed.given.get("form") == "json":
        print(json.dumps(asdict(result), indent=1))
    else:
        print_lines(*result.lines())
    sys.exit(result.outcome != "proven")


def _unsupported_options(options: Sequence[str], typed: Typed) -> str:
    """Return options that a check of random samples does not take, as they are typed."""
    flags = [typed.flag(name) for name in options]
    if not flags and typed.after_dashes is None:
        flags = [f"--format {typed.given['form']}"]
    if typed.after_dashes is not None:
        flags.append("a training command")
    return enumeration(flags)


def _check_files(typed: Typed, files: OutputFiles) -> None:
    """Refuse files that cannot be written, or would replace a shard or each other."""
    seen = set[Path]()
    for name, path in (("output", files.output), ("write_baseline", files.write_baseline)):
        check_output(path, name, typed)
        if path is None or is_device(path):
            continue
        is_taken = path.absolute() in seen
        other = path.with_stem(f"{path.stem}-2") if is_taken else path
        elsewhere = (
            f"elsewhere: {typed.command_with(**{name: unused_path(other.with_suffix('.json'))})}"
        )
        # A shell expands `--output *.tar` to a shard as the file, and more urls.
        if path.is_file() and path.name.lower().endswith(SUFFIXES):
            refuse(f"{path} has the name of a shard: it is not replaced", elsewhere)
        if is_taken:
            refuse(f"two options name {path}", elsewhere)
        seen.add(path.absolute())


def _train_data(training: Sequence[str]) -> list[str]:
    """Return the shards of the training command, if no url was given."""
    from wdsflow.validate.advice.training_flags import train_data

    shards = train_data(training)
    if shards is None:
        refuse("no shards given; all options: wdsflow validate --help")
    return [shards]


def _check(urls: Sequence[str], typed: Typed, options: CheckOptions) -> "Report":
    from wdsflow.validate.run_check import check

    with _errors_explained(typed, options), progress() as begin:
        return check(urls, **vars(replace(options, progress=begin)))


@contextmanager
def _errors_explained(typed: Typed, options: CheckOptions) -> Iterator[None]:
    """Turn errors of a check into messages."""
    from wdsflow.engines.base import EngineError
    from wdsflow.joining.join_errors import JoinMismatch
    from wdsflow.readers import UnknownReader
    from wdsflow.readers.open_clip.arguments import ArgumentsError
    from wdsflow.shards.urls import NoShards
    from wdsflow.table_files.errors import TableError
    from wdsflow.validate.catalog.rule_catalog import BadRule, UnknownCode
    from wdsflow.validate.check_options import WrongSampling
    from wdsflow.validate.joined_check import NotJoined
    from wdsflow.validate.pipeline.user_code.load_pipeline import PipelineError

    if options.address is not None and options.engine != "ray":
        refuse("--address is for --engine ray")
    try:
        yield
    except NoShards as error:
        refuse_no_shards(error, typed)
    except UnknownCode as error:
        refuse(str(error), "all codes: wdsflow explain")
    except ArgumentsError as error:
        refuse(f"in the arguments after --: {error}")
    except TableError as error:
        refuse(str(error), *advise_on_joined_table(error, typed))
    except JoinMismatch as error:
        refuse(str(error), *advise_on_mismatch(error, typed))
    except NotJoined as error:
        without = typed.command_with(**dict.fromkeys(error.options))
        refuse(str(error), *([without] if error.options else []))
    except (UnknownReader, BadRule, WrongSampling, EngineError, PipelineError) as error:
        refuse(str(error))


def _must_load(baseline: str | Path | None) -> str | Path | None:
    """Read the baseline before any shard, so that an invalid one fails early; return its path."""
    from wdsflow.validate.report.baseline import BaselineError, load_baseline

    try:
        if baseline is not None:
            load_baseline(baseline)
    except BaselineError as error:
        refuse(str(error))
    return baseline


def _accept(report: "Report", path: Path) -> "Report":
    from wdsflow.validate.report.baseline import dump_baseline, fingerprint

    accepted = report.findings
    write_output(path, dump_baseline(accepted))
    count = len(set(map(fingerprint, accepted)))
    print(
        f"wrote {how_many(count, 'finding')} to {path}; with --baseline {path} they do not fail",
        file=sys.stderr,
    )
    return replace(report, findings=[], accepted=accepted, against_baseline=True)


def _print_report(report: "Report", form: str, output: Path | None, typed: Typed) -> None:
    """Write the report.

    Exits with a message if no shard could be read; then only files have the full report.
    """
    from wdsflow.validate.report import render, report_text

    if output is not None:
        write_output(output, render(report, form))
    elif form != "text":
        sys.stdout.write(render(report, form))
    if report.nothing_read:
        refuse_none_read(report.evidence.shards, typed)
    if output is not None:
        report_text.show_summary(report, console())
    elif form == "text":
        report_text.show(report, console())
