"""``wdsflow index``: write index files of shards."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.printing import print_lines
from wdsflow.cli.shared.progress_bars import progress
from wdsflow.cli.shared.refuse import refuse
from wdsflow.cli.shared.run_arguments import ShardArguments
from wdsflow.cli.shared.typed import Typed, unused_path
from wdsflow.indexing.index_options import IndexKinds, IndexOptions
from wdsflow.shards.source.decompress import UNPACK

if TYPE_CHECKING:
    from wdsflow.indexing.index_report import IndexReport

# Damaged shards.
_SHOWN = 20


def index(
    typed: Typed, shards: ShardArguments, selected: IndexKinds, options: IndexOptions
) -> None:
    """Write sizes.json and the index files of other readers.

    Reads the headers of each shard once, for all kinds of files. Without any kind: --sizes --len.
    The same command again reads only shards that changed. Files with other contents that something
    else wrote are kept.

    Exit status: 0; 1 if a shard is damaged and was not indexed, or a file could not be made or was
    kept; 2 if the command is wrong, or nothing could be read or written.
    """
    from wdsflow.indexing.run_index import index_shards

    kinds = [kind for kind, is_selected in vars(selected).items() if is_selected] or options.kinds
    with progress() as begin:
        report = index_shards(shards.urls, **vars(replace(options, kinds=kinds, begin=begin)))
    _show(report, typed, shards.urls)


def _advice_on_damage(report: "IndexReport", typed: Typed) -> Iterator[str]:
    """Yield fixes for damaged shards.

    ``repair`` cannot recover data from a stream that fails its checksum.
    """
    from wdsflow.shards.tar.walk import NOT_TAR

    refused = report.refused[:_SHOWN]
    yield from (
        f"fetch {url} again, or unpack it unchecked: {report.unpack[url]}"
        for url, _ in refused
        if url in report.unpack
    )
    beyond_repair = UNPACK, NOT_TAR
    damaged = [
        url
        for url, why in refused
        if url not in report.unpack and not any(map(why.__contains__, beyond_repair))
    ]
    if damaged:
        yield f"to repair what is damaged: {typed.spell_command('repair', *damaged, out=unused_path(Path('repaired')))}"


def _show(report: "IndexReport", typed: Typed, urls: list[str]) -> None:
    if report.shards == len(report.refused):
        url, why = report.refused[0]
        more = f" (and {report.shards - 1:,} more)" if report.shards > 1 else ""
        look = f"see what is wrong: {typed.spell_command('validate', *urls)}"
        refuse(
            f"nothing could be indexed: {url}{more}: {why}", look, *_advice_on_damage(report, typed)
        )
    print_lines(*str(report).splitlines())
    if report.refused:
        print_lines(*_advice_on_damage(report, typed))
    if report.kept:
        print_lines(f"to replace what was kept: {typed.command_with(restart=True)}")
    sys.exit(0 if report.ok else 1)
