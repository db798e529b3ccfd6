"""``wdsflow cut``: filter again using existing scores."""

import typer

from wdsflow.cli.shared.cli_options import Address, AllowPipe, EngineChoice, Engines, Numbering, TarSamples, TarSize, To
from wdsflow.cli.shared.nearest_paths import nearest_ledger
from wdsflow.cli.shared.refusals import explained
from wdsflow.cli.shared.run_arguments import (
    DryRun,
    Empty,
    Export,
    Keep,
    Ledger,
    Memory,
    NoLedger,
    Out,
    Quarantine,
    Restart,
    ShardCount,
    ShardIndex,
    Unknown,
    Urls,
    Where,
    Workers,
    given,
    need_predicate,
    run_options,
)
from wdsflow.cli.shared.run_outcome import check_exports, exported, progress, show
from wdsflow.cli.shared.typed_command import Typed


def cut(
    context: typer.Context,
    urls: Urls = None,
    out: Out = None,
    ledger: Ledger = None,
    where: Where = None,
    keep: Keep = None,
    unknown: Unknown = None,
    empty: Empty = None,
    numbering: Numbering = None,
    workers: Workers = None,
    memory: Memory = None,
    engine: Engines = EngineChoice.local,
    address: Address = None,
    to: To = None,
    tar_samples: TarSamples = None,
    tar_size: TarSize = None,
    export: Export = None,
    quarantine: Quarantine = None,
    restart: Restart = False,
    dry_run: DryRun = False,
    shard_index: ShardIndex = 0,
    shard_count: ShardCount = 1,
    allow_pipe: AllowPipe = False,
) -> None:
    """Filter again using existing scores.

    Decodes nothing; copies bytes:

    wdsflow cut "in/{000..042}.tar" -o out --ledger scores --where "blur > 100"

    Exit status: 0 if all shards are done; 1 if a shard could not be read, nothing was kept, or half or more was
    quarantined; 2 if the command is wrong, or nothing could be read or written.
    """
    typed = Typed(context)
    with explained(typed):
        from wdsflow.filtering.recipe.recipe import canonical_recipe
        from wdsflow.filtering.recipe.recipe_file import merged
        from wdsflow.filtering.run_filter import cut_shards

        shards, folder = given(urls, out, needs_out="" if dry_run else "cut")
        check_exports(export, shard_count)
        tars = {"lines_to": to, "tar_samples": tar_samples, "tar_size": tar_size}
        flags = {"where": where, "keep": keep, "unknown": unknown, "empty": empty, "numbering": numbering}
        asked = merged(None, {**flags, **tars})
        if ledger is None:
            canonical_recipe(asked)  # a predicate that means nothing is reported first
            raise NoLedger(nearest_ledger(folder.absolute()))
        need_predicate(asked)
        with progress() as begin:
            limits = workers, memory, quarantine
            slices, on = (shard_index, shard_count), (engine, address)
            options = run_options(begin, limits, slices, on, restart=restart, dry_run=dry_run, allow_pipe=allow_pipe)
            report = cut_shards(shards, folder, ledger, asked, options)
        exported(report, folder, export)
    show(report, folder, typed)
