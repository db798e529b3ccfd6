"""Lists of the kept samples of a run: checked before the run, and written after it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.text.words import how_many

if TYPE_CHECKING:
    from wdsflow.filtering.run_report import RunReport


def check_exports(paths: Sequence[Path], count: int, *, tars: bool = True) -> None:
    """Raise ValueError, before any work, if a requested list of samples cannot be written.

    ``count``: slices of the run. ``tars``: whether it writes shards, from which most lists are
    made.
    """
    from wdsflow.filtering.export.embedding_matrix import embedding_kind
    from wdsflow.filtering.export.export import check_export

    if paths and count > 1:
        raise ValueError(
            "a slice cannot list what all slices keep: leave out --export, and give it to wdsflow merge when all slices are done"
        )
    for path in paths:
        check_export(path)
        if not tars and path.suffix != ".npz" and embedding_kind(path) is None:
            raise ValueError(
                f"{path} lists kept samples: wdsflow measure writes hashes.npz, embeddings.npz or image_embeddings.npy"
            )


def write_exports(report: "RunReport", out: Path, paths: Sequence[Path]) -> None:
    """Write the requested lists of a complete run. Raises ValueError, OSError."""
    from wdsflow.filtering.export.export import export
    from wdsflow.records.run_folder import Layout

    if not report.whole or report.dry_run:
        return
    for path in paths:
        samples = export(Layout(out), report.records, path)
        print(f"{how_many(samples, 'sample')} listed in {path}")
