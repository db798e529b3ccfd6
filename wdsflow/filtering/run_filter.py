"""Filter shards, with the scores of an earlier run or without, or score them: resumable, with every sample accounted for."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from wdsflow.filtering.deciding.compare_samples import compare_samples
from wdsflow.filtering.deciding.plan import plan_of
from wdsflow.filtering.deciding.stored_scores import as_scored, is_complete, missing_columns
from wdsflow.filtering.ledger.embeddings import Reuse, reuse_of
from wdsflow.filtering.ledger.ledger_metadata import (
    LedgerError,
    NotCompared,
    read_metadata,
    same_shard,
)
from wdsflow.filtering.recipe.recipe import (
    Recipe,
    canonical_recipe,
    digest,
    fixed_conditions,
    recorded_recipe,
)
from wdsflow.memory.batching.device_names import computes_bf16
from wdsflow.records.working_folder import remote_url, working_folder
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import fingerprint, input_identity
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.source.base import SourceError, local_folder
from wdsflow.shards.urls import expand_existing
from wdsflow.stages.scores.model.clip.clip_score import ClipScore
from wdsflow.table_files.parquet_file import path_problem
from wdsflow.text.secrets import redact

from .added_scores import with_ledgers
from .check_inputs import check_inputs, with_captions
from .filter_pass import Pass
from .pass_engine import joined
from .run_folder import Layout, ShardRecord
from .run_options import LocalOnly, RunOptions, say_all
from .run_pass import run_pass
from .run_report import RunReport

Urls = str | Iterable[str]


def filter_shards(
    urls: Urls,
    out: str | os.PathLike[str],
    recipe: Recipe,
    options: RunOptions | None = None,
    *,
    ledger: str | os.PathLike[str] | None = None,
    embeddings_from: str | os.PathLike[str] | None = None,
) -> RunReport:
    """Write, for each shard, a shard of the samples that a recipe keeps, byte for byte, and a ledger of all its samples.

    The same call resumes an interrupted run: shards that are finished in ``out`` are kept.

    With a ledger, scores that it has are taken from it. Others are computed for the samples that
    need them, and only these samples are read. The report counts a shard as a failure if it has no
    ledger, or if it has changed since.

    Args:
        urls: shards, as for ``check``.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to, such as ``s3://bucket/prefix``.
        recipe: the scores to compute, and the predicate for samples to keep.
        options: how the run works; they do not change the output.
        ledger: the folder that ``measure_shards`` or ``filter_shards`` wrote. Stages, and the fields of images and
            captions, are those of its recipe.
        embeddings_from: the folder of an earlier run with ``embeddings``; scores on the same CLIP use its embeddings.

    Raises:
        ValueError: the recipe or the options are invalid, ``urls`` match nothing (NoShards), no sample has a caption in
            the given fields (NoCaptions), or ``embeddings_from`` has no embeddings for this recipe (LedgerError).
        LedgerError: ``ledger`` has no ledgers, or the predicate compares samples and the ledger of a shard is missing.
        Differs: ``out`` holds a run with another recipe.
        Busy: another run works in ``out``.
        FileExistsError: ``out`` holds files that no run wrote.
        OutputError: an output could not be written. The same call resumes the run.
        EngineError: no worker could be started, or none is left. The same call resumes the run.
    """
    options = options or RunOptions()
    with run_folder(out, options) as folder:
        if ledger is not None:
            return _filter_scored(urls, folder, ledger, recipe, options, embeddings_from).naming(
                out, folder
            )
        return _scored_first(
            "filter", urls, folder, recipe, options, embeddings_from, tars=True
        ).naming(out, folder)


def measure_shards(
    urls: Urls,
    out: str | os.PathLike[str],
    recipe: Recipe,
    options: RunOptions | None = None,
    *,
    embeddings_from: str | os.PathLike[str] | None = None,
) -> RunReport:
    """Write the ledgers only, without shards.

    Ledgers of an earlier call get the scores that they lack; existing scores are neither computed
    again nor changed.

    Args:
        urls: shards, as for ``check``.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to, such as ``s3://bucket/prefix``.
        recipe: the scores to compute; its predicate is ignored. If ``out`` holds ledgers, only the scores may differ.
        options: how the run works; they do not change the output.
        embeddings_from: the folder of an earlier run with ``embeddings``; scores on the same CLIP use its embeddings.

    Raises:
        ValueError: as for ``filter_shards``; so are all other errors.
    """
    options = options or RunOptions()
    with run_folder(out, options) as folder:
        return _scored_first(
            "measure", urls, folder, recipe, options, embeddings_from, tars=False
        ).naming(out, folder)


@contextmanager
def run_folder(out: str | os.PathLike[str], options: RunOptions) -> Iterator[Path]:
    """Yield the local folder for the outputs of a run, as ``working_folder``. Raises LocalOnly as well."""
    remote = remote_url(out)
    if remote is not None:
        url = redact(remote)
        if options.count > 1:
            raise LocalOnly(
                f"slices cannot share {url}: run without slices, or each in a folder of its own",
                "index",
                "count",
            )
        if options.engine != "local":
            raise LocalOnly(
                f"the nodes of a cluster cannot write to {url}: run on this machine",
                "engine",
                "address",
            )
        if options.quarantine is not None:
            raise LocalOnly(
                f"--quarantine is for local folders; by default it is {url}/.wdsflow/quarantine",
                "quarantine",
            )
    with working_folder(out, dry_run=options.dry_run) as folder:
        yield folder


def _filter_scored(
    urls: Urls,
    out: Path,
    ledger: str | os.PathLike[str],
    recipe: Recipe,
    options: RunOptions,
    embeddings_from: str | os.PathLike[str] | None,
) -> RunReport:
    """Filter by the scores of an earlier run; missing ones are computed."""
    say_all(options, fixed_conditions(recipe))
    recipe = canonical_recipe(recipe)
    layout = _layout(out, options)
    scored = Layout(local_folder(ledger))
    shards, names = _shards(urls, options)
    _refuse_unreadable(layout, shards, names)
    _refuse_same(ledger, layout, "--ledger")
    recipe = as_scored(recipe, scored)
    recipe, line_on_precision = with_precision(recipe, options)
    say_all(options, filter(None, [line_on_precision]))
    missing_scores = missing_columns(plan_of(recipe), scored, names)
    if recipe.embeddings and not plan_of(recipe).model_calls.isdisjoint(missing_scores):
        raise ValueError(
            f"--embeddings copies those of {scored.folder}, which has none for some scores: measure them first"
        )
    check_inputs(shards, recipe, missing_scores, allow_pipe=options.allow_pipe)
    compares = bool(plan_of(recipe).dataset_calls)
    _refuse_slices(options, compares=compares)
    embedded = _reuse(embeddings_from, names, layout, recipe, options)

    def prepare(second: Pass, report: RunReport) -> bool:
        try:
            _use_ledgers(second, scored)
        except NotCompared:
            # Its samples were not scored for this comparison:
            # a first pass computes the missing values.
            first = _first_pass(second, options)
            first.reused = scored
            return _run_first(second, first, report)
        return True

    pass_ = Pass("filter", shards, names, layout, recipe, options, scored=scored, embedded=embedded)
    pass_.compares = compares
    pass_.prepare = prepare
    pass_.computes = bool(missing_scores) or not is_complete(scored, recipe)
    with joined(options) as pass_.cluster:
        return run_pass(pass_)


def _scored_first(
    kind: str,
    urls: Urls,
    out: Path,
    recipe: Recipe,
    options: RunOptions,
    embeddings_from: str | os.PathLike[str] | None,
    *,
    tars: bool,
) -> RunReport:
    """Run one pass, or two if scores compare all samples: the first computes and gathers, the second decides."""
    say_all(options, fixed_conditions(recipe))
    recipe = canonical_recipe(recipe)
    layout = _layout(out, options)
    shards, names = _shards(urls, options)
    _refuse_unreadable(layout, shards, names)
    earlier = {} if options.restart else recorded_recipe(layout.run_file)
    adding = ""
    if kind == "measure" and not options.restart:
        recipe, adding = with_ledgers(recipe, layout, is_alone=options.count == 1)
    recipe, line_on_precision = with_precision(recipe, options)
    recipe, line_on_captions = with_captions(
        shards, recipe, allow_pipe=options.allow_pipe, earlier=earlier
    )
    say_all(options, filter(None, (adding, line_on_precision, line_on_captions)))
    embedded = _reuse(embeddings_from, names, layout, recipe, options)
    pass_ = Pass(kind, shards, names, layout, recipe, options, tars=tars, embedded=embedded)
    pass_.sources = embedded.digest if embedded else None
    if not plan_of(recipe).dataset_calls:
        return run_pass(pass_)
    _refuse_slices(options, compares=True)

    def prepare(second: Pass, report: RunReport) -> bool:
        first = _first_pass(second, options)
        first.main = second.layout if kind == "measure" else None
        return _run_first(second, first, report)

    pass_.prepare = prepare
    pass_.compares = True
    # Once for both passes.
    with joined(options) as pass_.cluster:
        return run_pass(pass_)


def _first_pass(second: Pass, options: RunOptions) -> Pass:
    """Return the pass that computes and gathers what a second pass needs to compare samples."""
    options = replace(options, dry_run=False, restart=False)
    first = Pass(
        "measure",
        second.urls,
        second.names,
        second.layout.scored,
        second.recipe,
        options,
        tars=False,
    )
    first.embedded = second.embedded
    first.sources = second.sources
    first.cluster = second.cluster
    return first


def _run_first(second: Pass, first: Pass, report: RunReport) -> bool:
    """Run the first of two passes, and compare all samples. Return False if it failed."""
    first_report = run_pass(first)
    report.changed = first_report.changed
    if first_report.failures:
        report.failures = first_report.failures
        report.whole = False
        report.waits_for = tuple(map(str, second.plan.dataset_calls))
        return False
    second.scored = first.layout
    second.computes = False
    _use_ledgers(second, first.layout)
    return True


def with_precision(recipe: Recipe, options: RunOptions) -> tuple[Recipe, str]:
    """Return the recipe with the precision in which its models run, and a line if it is not fp32.

    On a cluster "auto" is fp32: which GPUs its nodes have is not known yet.
    """
    scores = plan_of(recipe).scores.items()
    if not any(
        hasattr(score, "precision") and dict(call.settings).get("precision", "auto") == "auto"
        for call, score in scores
    ):
        return replace(recipe, precision="auto"), ""
    if recipe.precision != "auto":
        return recipe, ""
    if options.engine != "local" or not computes_bf16(options.device):
        return replace(recipe, precision="fp32"), ""
    line = "models run in bf16 on this GPU; --precision fp32 is exact, and slower"
    return replace(recipe, precision="bf16"), line


def _reuse(
    folder: str | os.PathLike[str] | None,
    names: list[str],
    layout: Layout,
    recipe: Recipe,
    options: RunOptions,
) -> Reuse | None:
    """Return the reusable embeddings of an earlier run. Raises LedgerError; ValueError if none could be stored."""
    plan = plan_of(recipe)
    if recipe.embeddings and not any(
        isinstance(score, ClipScore) for score in plan.scores.values()
    ):
        raise ValueError(
            "--embeddings stores the embeddings of CLIP scores: add clip_similarity, zero_shot or aesthetic"
        )
    if folder is None:
        return None
    _refuse_same(folder, layout, "--embeddings-from")
    reuse = reuse_of(folder, names, plan.models, recipe.stages)
    say_all(options, [f"{line}: computed again" for line in reuse.missing])
    return reuse


def _refuse_same(ledger: str | os.PathLike[str], layout: Layout, flag: str) -> None:
    """Refuse to write into the folder of the ledgers that ``flag`` names: --restart would remove them."""
    if os.path.realpath(ledger) in map(os.path.realpath, (layout.folder, layout.scored.folder)):
        raise ValueError(
            f"{layout.folder} cannot be both {flag} and -o: give another folder for the output"
        )


def _refuse_unreadable(layout: Layout, shards: Sequence[Shard], names: Sequence[str]) -> None:
    """Raise ValueError if a ledger would have a path by which it cannot be read again."""
    problem = path_problem(os.path.abspath(layout.inside))
    if problem:
        raise ValueError(
            f"{layout.folder} cannot hold ledgers, because {problem}: choose another folder for the output"
        )
    for url, name in zip(shards, names, strict=True):
        problem = path_problem(os.path.abspath(layout.ledger(name)))
        if problem:
            raise ValueError(
                f"the ledger of {url} could not be read again, because {problem}: rename the shard"
            )


def _use_ledgers(pass_: Pass, scored: Layout) -> None:
    """Make a pass depend on the ledgers of its shards, and compare all samples if needed."""
    identities = {}
    missing = []
    for name in pass_.names:
        ledger = scored.ledger(name)
        if ledger.is_file():
            identities[name] = fingerprint(str(ledger))
        else:
            missing.append(name)
    # Otherwise the shards without one are reported as not done.
    if missing and (pass_.compares or not identities):
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise LedgerError(
            f"{scored.folder} has no ledger of {missing[0]}{more}: measure the shards, or leave them out"
        )
    pass_.sources = digest([identities.get(name) for name in pass_.names])
    if not pass_.compares:
        return
    for url, name in zip(pass_.urls, pass_.names, strict=True):
        # If one cannot be read now, the others are unaffected.
        with suppress(SourceError):
            record = ShardRecord(0, url, name, "", input_identity(url))
            same_shard(read_metadata(scored.ledger(name)), record, scored.ledger(name))
    compare_samples(pass_.plan, list(enumerate(pass_.names)), scored, pass_.layout)


def _refuse_slices(options: RunOptions, *, compares: bool) -> None:
    if compares and options.count > 1:
        raise ValueError(
            "a score that compares all samples cannot run in slices: measure the slices without it, or run without --shard-count"
        )


def _layout(out: Path, options: RunOptions) -> Layout:
    quarantine = None if options.quarantine is None else local_folder(options.quarantine)
    return Layout(out, quarantine)


def _shards(urls: Urls, options: RunOptions) -> tuple[list[Shard], list[str]]:
    """Return the shards of urls, and the names of their outputs."""
    shards = expand_existing(urls, allow_pipe=options.allow_pipe)
    return shards, output_names(shards)
