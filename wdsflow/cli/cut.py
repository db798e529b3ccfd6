"""``wdsflow cut``: cut shards anew by scores that are there."""

from pathlib import Path
from typing import Annotated

import typer

from .live import progress
from .options import Address, Engine, Engines, Numbering, TarSamples, TarSize, To
from .running import (
    AllowPipe,
    DryRun,
    Export,
    Memory,
    Out,
    Quarantine,
    Restart,
    ShardCount,
    ShardIndex,
    Urls,
    Where,
    Workers,
    check_exports,
    explained,
    exported,
    given,
    run_options,
    show,
)

Ledger = Annotated[
    Path | None,
    typer.Option("--ledger", metavar="DIR", help="Folder that score or filter wrote.", show_default=False),
]
Unknown = Annotated[
    str | None,
    typer.Option(
        "--unknown",
        metavar="WHAT",
        help="What becomes of samples whose predicate stays unknown: quarantine (default), keep or drop.",
        show_default=False,
    ),
]
Empty = Annotated[
    str | None,
    typer.Option("--empty", metavar="WHAT", help="Shards of which nothing is kept: leave-out (default) or write."),
]


def cut(
    urls: Urls = None,
    out: Out = None,
    ledger: Ledger = None,
    where: Where = None,
    unknown: Unknown = None,
    empty: Empty = None,
    numbering: Numbering = None,
    workers: Workers = None,
    memory: Memory = None,
    engine: Engines = Engine.local,
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
    """Cut shards anew by scores that are there.

    Nothing is decoded, bytes are copied:

    wdsflow cut "in/{000..042}.tar" -o out --ledger scores --where "blur > 100"

    Exit status: 0, 1 if a shard could not be read, 2 for wrong use or where nothing could be written.
    """
    with explained():
        from wdsflow.filtering.recipe_file import merged
        from wdsflow.filtering.run import cut_shards

        shards, folder = given(urls, out, needs_out=not dry_run)
        check_exports(export, shard_count)
        if ledger is None:
            raise ValueError("by which scores? give --ledger, the folder that wdsflow score or filter wrote")
        tars = {"lines_to": to, "tar_samples": tar_samples, "tar_size": tar_size}
        flags = {"where": where, "unknown": unknown, "empty": empty, "numbering": numbering}
        asked = merged(None, {**flags, **tars})
        with progress() as begin:
            limits = workers, memory, quarantine
            slices, on = (shard_index, shard_count), (engine, address)
            options = run_options(begin, limits, slices, on, restart=restart, dry_run=dry_run, allow_pipe=allow_pipe)
            report = cut_shards(shards, folder, ledger, asked, options)
        exported(report, folder, export)
    show(report, folder, "cut")
