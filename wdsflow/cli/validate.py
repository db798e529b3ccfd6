"""``wdsflow validate``: will these shards train?"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from wdsflow.cli.shared.certificates import compare_shards, write_certificate, write_croissant
from wdsflow.cli.shared.cli_options import (
    Address,
    AllowPipe,
    Baseline,
    Certify,
    Croissant,
    EngineChoice,
    Engines,
    FormatChoice,
    Formats,
    Ignore,
    Jobs,
    Level,
    Levels,
    Manifest,
    MaxLoss,
    Output,
    Pipeline,
    PrintSchema,
    Readers,
    Select,
    Urls,
    WorldSize,
    WriteBaseline,
)
from wdsflow.cli.shared.terminal import (
    check_output,
    console,
    fail,
    is_device,
    no_shards,
    none_read,
    progress,
    several,
    write_output,
)
from wdsflow.cli.shared.typed_command import Typed, free
from wdsflow.shards.shard_names import SUFFIXES

if TYPE_CHECKING:
    from wdsflow.validate.report import Report


def _share(text: str) -> float:
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise typer.BadParameter(f"{text} is not a share: write 5% or 0.05")
    return share


def _reasons(values: Sequence[str] | None) -> dict[str, str]:
    """Read ``CODE``, ``CODE,CODE`` and ``CODE=reason``.

    >>> _reasons(["W1,W2", "F3=two sources, both fine"])
    {'W1': '', 'W2': '', 'F3': 'two sources, both fine'}
    """
    ignored = {}
    for value in values or ():
        codes, _, reason = value.partition("=")
        ignored.update(dict.fromkeys(several([codes]), reason.strip().strip("\"'")))
    return ignored


def validate(
    context: typer.Context,
    urls: Urls = None,
    readers: Readers = None,
    pipeline: Pipeline = None,
    level: Levels = Level.headers,
    select: Select = None,
    ignore: Ignore = None,
    baseline: Baseline = None,
    write_baseline: WriteBaseline = None,
    form: Formats = FormatChoice.text,
    output: Output = None,
    max_loss: MaxLoss = "5%",
    jobs: Jobs = None,
    engine: Engines = EngineChoice.local,
    address: Address = None,
    world_size: WorldSize = 1,
    allow_pipe: AllowPipe = False,
    certify: Certify = None,
    croissant: Croissant = None,
    manifest: Manifest = None,
    print_schema: PrintSchema = False,
) -> None:
    """Report whether shards will train, why not, and what to do.

    Arguments after -- are those of open_clip_train. They add a forecast of the training run:

    wdsflow validate --world-size 8 -- --train-data "{000..042}.tar" --workers 6

    Exit status: 0 if no error was found; 1 if errors were found; 2 if the command is wrong or nothing could be read.
    """
    if print_schema:
        _print_schema()
        return
    training, typed = context.obj, Typed(context)
    if manifest is not None:
        _compare(manifest, urls or [], typed, jobs, training)
    _check_files(context, output=output, write_baseline=write_baseline, certify=certify, croissant=croissant)
    report = _check(
        urls or _train_data(training or []),
        typed,
        readers=readers or ([] if pipeline else ["open-clip"]),
        pipeline=pipeline,
        level=level.value,
        arguments=training,
        world_size=world_size,
        max_loss=_share(max_loss),
        jobs=jobs,
        engine=engine.value,
        address=address,
        select=several(select),
        ignore=_reasons(ignore),
        baseline=None if write_baseline else _must_load(baseline),
        allow_pipe=allow_pipe,
        identify=certify is not None or croissant is not None,
    )
    if write_baseline:
        report = _accept(report, write_baseline)
    _tell(report, form.value, output, typed)
    raise typer.Exit(report.exit_status if _describe(report, certify, croissant, pipeline, typed) else 1)


_OF_MANIFEST = frozenset({"urls", "manifest", "level", "jobs", "form"})


def _compare(file: Path, urls: list[str], typed: Typed, jobs: int | None, training: list[str] | None) -> NoReturn:
    """Compare shards with their manifest; nothing else is asked about them."""
    if others := sorted(typed.given.keys() - _OF_MANIFEST):
        alone = typed.again(**dict.fromkeys(others))
        fail("--manifest compares shards with their checksums, and takes only --level, --jobs and --format", alone)
    if training is not None:
        fail("--manifest compares shards with their checksums, and forecasts no training", "leave out what follows --")
    form = typed.given.get("form", FormatChoice.text)
    if form not in (FormatChoice.text, FormatChoice.json):
        fail(f"--manifest has no --format {form.value}", typed.again(form=FormatChoice.json))
    full, as_json = typed.given.get("level") is Level.full, form is FormatChoice.json
    again = typed.again(level=None, form=None)
    options = "--level full", "--format json"
    compare_shards(file, urls, again, *options, full=full, jobs=jobs, as_json=as_json, wanted="manifest")


def _describe(
    report: "Report", certify: Path | None, croissant: Path | None, pipeline: str | None, typed: Typed
) -> bool:
    """Write what was asked for besides the report; return whether all of it was written."""
    described = croissant is None or write_croissant(report, croissant)
    return (certify is None or write_certificate(report, certify, pipeline, typed)) and described


def _print_schema() -> None:
    from wdsflow.validate.report import schema

    print(schema(), end="")


def _check_files(context: typer.Context, **files: Path | None) -> None:
    """Refuse files that cannot be written, or would replace a shard or each other."""
    typed, seen = Typed(context), set[Path]()
    for name, path in files.items():
        check_output(path, name, typed)
        if path is None or is_device(path):
            continue
        elsewhere = f"elsewhere: {typed.again(**{name: free(path.with_suffix('.json'))})}"
        # A shell makes of `--certify *.tar` a file that is a shard, and more urls.
        if path.is_file() and path.name.lower().endswith(SUFFIXES):
            fail(f"{path} has the name of a shard: it is not replaced", elsewhere)
        if path.absolute() in seen:
            fail(f"two options name {path}", elsewhere)
        seen.add(path.absolute())


def _train_data(training: Sequence[str]) -> list[str]:
    """Return the shards of the training command, if no url was given."""
    from wdsflow.validate.advice.invocation import train_data

    named = train_data(training)
    return [named] if named is not None else fail("no shards given; all options: wdsflow validate --help")


def _nothing_read(report: "Report", form: str, output: Path | None, typed: Typed) -> NoReturn:
    """Report in one line that no shard could be read; programs and files get the full report, without a verdict."""
    from wdsflow.validate.report import render

    if output is not None:
        write_output(output, render(report, form))
    elif form != "text":
        sys.stdout.write(render(report, form))
    none_read(report.evidence.shards, typed)


def _check(urls: Sequence[str], typed: Typed, **options: Any) -> "Report":
    from wdsflow.engines.base import EngineError
    from wdsflow.readers import UnknownReader
    from wdsflow.readers.open_clip.arguments import ArgumentsError
    from wdsflow.shards.certificate import CertificateError
    from wdsflow.shards.urls import NoShards
    from wdsflow.validate.check import check
    from wdsflow.validate.pipeline.load_pipeline import PipelineError
    from wdsflow.validate.rules.rule_catalog import BadRule, UnknownCode

    if options["address"] is not None and options["engine"] != EngineChoice.ray.value:
        fail("--address is for --engine ray")
    try:
        with progress() as begin:
            return check(urls, progress=begin, **options)
    except NoShards as error:
        no_shards(error, typed)
    except UnknownCode as error:
        fail(str(error), "all codes: wdsflow explain")
    except ArgumentsError as error:
        fail(f"in the arguments after --: {error}")
    except (UnknownReader, BadRule, EngineError, PipelineError, CertificateError) as error:
        fail(str(error))


def _must_load(baseline: Path | None) -> Path | None:
    """Read the baseline before any shard, and return its path: a wrong one must not cost an hour."""
    from wdsflow.validate.report.baseline import BaselineError, load_baseline

    try:
        if baseline is not None:
            load_baseline(baseline)
    except BaselineError as error:
        fail(str(error))
    return baseline


def _accept(report: "Report", path: Path) -> "Report":
    from wdsflow.validate.report.baseline import dump_baseline, fingerprint

    accepted = report.findings
    write_output(path, dump_baseline(accepted))
    count = len(set(map(fingerprint, accepted)))
    print(f"wrote {count:,} findings to {path}; with --baseline {path} they do not fail", file=sys.stderr)
    return replace(report, findings=[], accepted=accepted, against_baseline=True)


def _tell(report: "Report", form: str, output: Path | None, typed: Typed) -> None:
    from wdsflow.validate.report import render, report_text

    if report.nothing_read:
        _nothing_read(report, form, output, typed)
    if output is not None:
        write_output(output, render(report, form))
        report_text.show_summary(report, console())
    elif form == "text":
        report_text.show(report, console())
    else:
        sys.stdout.write(render(report, form))
