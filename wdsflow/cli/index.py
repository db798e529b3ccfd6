"""``wdsflow index``: write files that tell about shards."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from wdsflow.cli.shared.cli_options import Shards
from wdsflow.cli.shared.terminal import cannot_write, fail, folder_name, is_misplaced, no_shards, print_lines, progress
from wdsflow.cli.shared.typed_command import OUTPUT, Typed, free
from wdsflow.shards.source.decompress import UNPACK
from wdsflow.text.shell import quote_path

_SHOWN = 20  # damaged shards

Sizes = Annotated[bool, typer.Option("--sizes", help="sizes.json: OpenCLIP, DataComp.")]
Len = Annotated[bool, typer.Option("--len", help="__len__: OpenCLIP.")]
Wids = Annotated[bool, typer.Option("--wids", help="shardindex.json: wids.")]
Dali = Annotated[bool, typer.Option("--dali", help="NAME.idx for each shard: NVIDIA DALI.")]
Energon = Annotated[
    bool, typer.Option("--energon", help=".nv-meta, and NAME.tar.idx for each shard: Megatron Energon.")
]
Webshart = Annotated[bool, typer.Option("--webshart", help="NAME.json for each shard: webshart, cheesechaser.")]
Timm = Annotated[bool, typer.Option("--timm", help="_info.json: timm.")]
Img2dataset = Annotated[
    bool, typer.Option("--img2dataset", help="NAME_stats.json for each shard: img2dataset, DataComp.")
]
Checksums = Annotated[
    bool,
    typer.Option(
        "--checksums", help="checksums.json: SHA-256, size, samples and fields of each shard. Reads all bytes."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        parser=folder_name,
        metavar="FOLDER",
        help="Folder for the files, if shards are not local or cannot have files next to them.",
        rich_help_panel=OUTPUT,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Index all shards again; replace files that something else wrote.", rich_help_panel=OUTPUT
    ),
]
Jobs = Annotated[int, typer.Option(min=1, metavar="N", help="Shards read at once.", rich_help_panel=OUTPUT)]


def index(
    context: typer.Context,
    urls: Shards,
    sizes: Sizes = False,
    len_: Len = False,
    wids: Wids = False,
    dali: Dali = False,
    energon: Energon = False,
    webshart: Webshart = False,
    timm: Timm = False,
    img2dataset: Img2dataset = False,
    checksums: Checksums = False,
    out: Out = None,
    force: Force = False,
    jobs: Jobs = 2,
) -> None:
    """Write sizes.json and the index files of other readers.

    Reads the headers of each shard once, for all kinds of files. Without any kind: --sizes --len. The same command again
    reads only shards that changed. Files with other contents that something else wrote are kept.

    Exit status: 0; 1 if a shard is damaged and was not indexed, or a file could not be made or was kept; 2 if the
    command is wrong, or nothing could be read or written.
    """
    from wdsflow.indexing.index_report import DEFAULT
    from wdsflow.indexing.run_index import PartOfSet, index_shards
    from wdsflow.records.refusals import Busy
    from wdsflow.shards.urls import NoShards

    asked = {"sizes": sizes, "len": len_, "wids": wids, "dali": dali, "energon": energon, "webshart": webshart}
    asked |= {"timm": timm, "img2dataset": img2dataset, "checksums": checksums}
    typed = Typed(context)
    elsewhere = f"elsewhere: {typed.again(out=free(out or Path('index')))}"
    try:
        with progress() as begin:
            kinds = [kind for kind, is_asked in asked.items() if is_asked] or DEFAULT
            report = index_shards(urls, kinds, out=out, force=force, jobs=jobs, begin=begin)
    except NoShards as error:
        no_shards(error, typed)
    except (Busy, FileExistsError) as error:
        fail(str(error), elsewhere)
    except PartOfSet as error:
        whole, part = typed.again(urls=error.folders), typed.again(force=True)
        fail(str(error), f"to index all shards: {whole}", f"to list only those given: {part}")
    except ValueError as error:
        fail(str(error), elsewhere if "give a folder" in str(error) else "")
    except OSError as error:
        if is_misplaced(error, out or Path()):
            cannot_write(error, elsewhere)
        cannot_write(error, "free space there: finished files are kept, and the same command resumes")
    _show(report, typed, urls)


def _helps(report: Any, typed: Typed) -> Iterator[str]:
    """Yield what to do with damaged shards; repair brings nothing back from a stream that no checksum proves right."""
    from wdsflow.shards.tar.walk import NOT_TAR

    refused = report.refused[:_SHOWN]
    yield from (
        f"fetch {url} again, or unpack it unchecked: {report.unpack[url]}" for url, _ in refused if url in report.unpack
    )
    beyond_repair = UNPACK, NOT_TAR
    damaged = [
        url for url, why in refused if url not in report.unpack and not any(map(why.__contains__, beyond_repair))
    ]
    if damaged:
        yield f"to repair what is damaged: {typed.spell('repair', *damaged, out=free(Path('repaired')))}"


def _show(report: Any, typed: Typed, urls: list[str]) -> None:
    if report.shards == len(report.refused):
        url, why = report.refused[0]
        more = f" (and {report.shards - 1:,} more)" if report.shards > 1 else ""
        look = f"see what is wrong: {typed.spell('validate', *urls)}"
        fail(f"nothing could be indexed: {url}{more}: {why}", look, *_helps(report, typed))
    print_lines(*str(report).splitlines())
    if report.refused:
        print_lines(*_helps(report, typed))
    if report.kept:
        print_lines(f"to replace what was kept: {typed.again(force=True)}")
    for path in report.manifests:
        print_lines(f"to compare the shards with it later: wdsflow validate --manifest {quote_path(path)}")
    raise typer.Exit(0 if report.ok else 1)
