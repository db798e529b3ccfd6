"""``wdsflow report``: the page of a run."""

from dataclasses import dataclass
from pathlib import Path

from wdsflow.cli.shared.nearest_paths import nearest_ledger
from wdsflow.cli.shared.output_files import check_output, write_output
from wdsflow.cli.shared.refuse import refuse
from wdsflow.cli.shared.typed import Typed
from wdsflow.text.options import argument, option
from wdsflow.text.shell import quote_path


@dataclass(frozen=True)
class ReportOptions:
    """A run, and its page."""

    folder: Path | None = argument("FOLDER", "Folder that filter or measure wrote.")
    output: Path | None = option(
        None,
        "Page to write. Default: FOLDER/.wdsflow/report.html",
        "-o",
        "--output",
        metavar="FILE",
    )
    no_pictures: bool = option(False, "Show no images of samples.")


def report(typed: Typed, options: ReportOptions) -> None:
    """Write a page on a run of filter or measure.

    The page shows what became of the samples, a histogram of each score, and sliders to choose
    thresholds with images near each cut. It is one HTML file that needs no network:

    wdsflow report out

    Exit status: 0 if the page was written; 2 if the folder holds no run, or the page could not be
    written.
    """
    from wdsflow.filtering.ledger.ledger_metadata import LedgerError
    from wdsflow.filtering.page.run_page import run_page

    folder, output = options.folder, options.output
    if folder is None:
        near = nearest_ledger(Path("out"))
        refuse(
            "no folder given",
            typed.command_with(folder=near) if near else "all options: wdsflow report --help",
        )
    target = output or folder / ".wdsflow" / "report.html"
    if output is not None:
        check_output(output, "output", typed)
    try:
        page = run_page(folder, pictures=not options.no_pictures)
    except LedgerError as error:
        near = nearest_ledger(folder)
        refuse(
            str(error),
            typed.command_with(folder=near)
            if near and near.absolute() != folder.absolute()
            else "",
        )
    write_output(target, page)
    print(
        f"wrote {target}, {len(page.encode()) / 1e6:.1f} MB; to look at it, open it in a browser:"
    )
    print(f"  python3 -m webbrowser {quote_path(str(target.absolute()))}")
