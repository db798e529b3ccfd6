"""``wdsflow pack``: shards from a table or a folder of files."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.next_commands import new_shards_lines
from wdsflow.cli.shared.output_url import shown_as
from wdsflow.cli.shared.printing import print_lines
from wdsflow.cli.shared.progress_bars import progress
from wdsflow.cli.shared.refuse import refuse_in_lines
from wdsflow.cli.shared.typed import Typed
from wdsflow.packing.pack_options import PackRequest
from wdsflow.records.working_folder import store_of, working_folder
from wdsflow.shards.source.base import SourceError, local_path
from wdsflow.text.options import argument, folder_or_url, required
from wdsflow.text.shell import escape

if TYPE_CHECKING:
    from wdsflow.packing.pack_report import PackReport


@dataclass(frozen=True)
class PackInputs:
    """What is packed, and where the shards are written."""

    tables: list[str] = argument(
        "TABLE...",
        "Tables (.jsonl, .json, .csv, .tsv, .parquet), folders of files or .zip files; also urls.",
    )
    out: Path | str = required(
        "Folder for the shards, or its url in an object store.",
        "--output",
        "-o",
        metavar="OUT",
        parse=folder_or_url,
    )

    @contextmanager
    def folder(self, *, dry_run: bool) -> Iterator[Path]:
        """Yield the local folder for the shards, as ``working_folder`` does.

        Printed text shows the url instead.
        """
        with working_folder(self.out, dry_run=dry_run) as folder, shown_as(folder, self.out):
            yield folder


def pack(typed: Typed, inputs: PackInputs, request: PackRequest) -> None:
    """Write shards from a table or a folder of files.

    A sample for each row: its images or videos, byte for byte, its caption (txt), and the other
    columns (json). Knows the tables of Data-Juicer, LLaVA, OpenCLIP and imagefolder, and Parquet
    with images in cells; takes others with --image and --caption. Writes sizes.json and __len__
    next to the shards. The same command resumes an interrupted run.

    Exit status: 0; 1 if a file is missing or not an image, a value is of the wrong type, or no
    sample was written; 2 if the command is wrong, or a table cannot be read.
    """
    from wdsflow.packing import pack_shards
    from wdsflow.packing.folder_names import refuse_pattern
    from wdsflow.packing.kept_shards import LosesSamples

    refuse_pattern(str(inputs.out))
    with inputs.folder(dry_run=request.dry_run) as folder:
        try:
            with progress() as begin:
                report = pack_shards(inputs.tables, folder, **vars(replace(request, begin=begin)))
        except LosesSamples as error:
            error.advice.append(f"to replace them all the same: {typed.command_with(restart=True)}")
            raise
        except SourceError as error:
            # A hint of the command line says that finished shards are kept.
            if store_of(folder) is None and next(folder.glob("*.tar"), None) is None:
                refuse_in_lines(str(error))
            raise
        print_lines(*str(report).splitlines())
        root = _folder_of_missing_files(report) if request.root is None else None
        if root is not None:
            print_lines(
                f"the missing files are in {escape(str(root))}: {typed.command_with(root=root, restart=True)}"
            )
        if request.dry_run:
            print_lines(f"nothing was written; to write it: {typed.command_with(dry_run=None)}")
        elif report.samples:
            print_lines(*new_shards_lines(folder))
    sys.exit(int(bool(report.damaged) or not report.samples))


def _folder_of_missing_files(report: "PackReport") -> Path | None:
    """Return the folder that holds the missing files.

    None unless it is near the first table that names some.
    """
    from wdsflow.packing.nearest_root import nearest_root
    from wdsflow.packing.unusable import MISSING

    missing = report.examples.get(MISSING)
    if not missing:
        return None
    source = missing[0].source
    name, _layout = report.tables[source]
    table = local_path(name)
    if table is None:
        return None
    paths = [row.value for row in missing if row.source == source]
    return nearest_root(Path(table).parent, paths)
