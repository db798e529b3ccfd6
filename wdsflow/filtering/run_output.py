"""The output folder of a run, and which ones are refused because the run could not work in them."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from wdsflow.records.run_folder import Layout
from wdsflow.records.working_folder import remote_url, working_folder
from wdsflow.shards.shard import Shard
from wdsflow.table_files.parquet_file import path_problem
from wdsflow.text.secrets import redact

from .run_options import LocalOnly, RunOptions


@contextmanager
def run_folder(out: str | os.PathLike[str], options: RunOptions) -> Iterator[Path]:
    """Yield the local folder for the outputs of a run, as ``working_folder`` does.

    Raises LocalOnly as well.
    """
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


def refuse_ledger_folder(ledger: str | os.PathLike[str], layout: Layout, flag: str) -> None:
    """Refuse to write into the folder of the ledgers that ``flag`` names.

    --restart would remove them.
    """
    if os.path.realpath(ledger) in map(os.path.realpath, (layout.folder, layout.scored.folder)):
        raise ValueError(
            f"{layout.folder} cannot be both {flag} and -o: give another folder for the output"
        )


def refuse_unreadable_paths(layout: Layout, shards: Sequence[Shard], names: Sequence[str]) -> None:
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
