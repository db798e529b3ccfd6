"""Summary of ``filter`` and ``measure``."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.records.load_dataset import load_call
from wdsflow.records.train_data import train_data_lines
from wdsflow.records.working_folder import store_of
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.decompress import UNPACK
from wdsflow.text.shell import quote_path
from wdsflow.text.words import how_many

from .advice_on_outputs import without_unreadable
from .advice_on_scores import measure_again
from .nearest_paths import nearest_shards
from .refuse import refuse
from .terminal import as_folder, new_shards_lines
from .typed import Typed, another, free

if TYPE_CHECKING:
    from wdsflow.filtering.run_report import RunReport


# Reasons shown if nothing could be read.
_REASONS = 3


def check_exports(paths: Sequence[Path], count: int, *, tars: bool = True) -> None:
    """Raise ValueError, before any work, if a requested list of samples cannot be written.

    ``tars``: whether the run writes shards, from which most lists are made.
    """
    from wdsflow.filtering.ledger.export import check_export, embedding_kind

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


def exported(report: "RunReport", out: Path, paths: Sequence[Path]) -> None:
    """Write the requested lists of a complete run. Raises ValueError, OSError."""
    from wdsflow.filtering.ledger.export import export
    from wdsflow.filtering.run_folder import Layout

    for path in paths if report.whole and not report.dry_run else ():
        print(f"{export(Layout(out), report.records, path):,} samples listed in {path}")


def show(report: "RunReport", out: Path, typed: Typed) -> None:
    """Print the funnel, the outputs, and the next commands.

    Exit status: 0; 1 if something could not be read, or little was kept; 2 if nothing could be
    read.
    """
    if report.unread:
        _nothing_read(report, typed)
    print(report)
    if not report.dry_run:
        if report.quarantine is not None and report.tars and report.merged("quarantined"):
            print(f"quarantined samples: {report.quarantine}")
        print(f"ledgers: {out / '.wdsflow' / 'ledger'}")
    for line in _next(report, out, typed):
        print(line)
    sys.exit(1 if report.failures or report.lost or report.warning else 0)


def _nothing_read(report: "RunReport", typed: Typed) -> None:
    reasons = report.reasons()
    lines = []
    for urls, reason in reasons[:_REASONS]:
        path = Shard.stored(urls[0]).path
        more = f" and {len(urls) - 1:,} more" if len(urls) > 1 else ""
        lines.append(f"{urls[0] if path is None else os.path.abspath(path)}{more}: {reason}")
    if len(reasons) > _REASONS:
        lines.append(f"and {how_many(len(reasons) - _REASONS, 'other reason')}")
    what = "filtered" if typed.name == "filter" else "measured"
    refuse(f"nothing could be {what}: " + "\n".join(lines), *_help(report, typed))


def _help(report: "RunReport", typed: Typed) -> Iterator[str]:
    """Yield hints for the first failure."""
    first = report.failures[0]
    path = Shard.stored(first.url).path
    if first.kind == "ledger":
        yield from measure_again(typed, first.missing)
    elif first.kind == "missing" and path is not None:
        if near := nearest_shards(first.url):
            yield typed.again(urls=[near])
    elif first.kind == "missing":
        yield "the server has no such file: check the address"
    elif first.kind == "denied" and path is not None:
        yield f"chmod u+r {quote_path(path)}"
    elif (
        first.kind == "refused"
        and first.url.startswith("pipe:")
        and "allow_pipe" not in typed.given
    ):
        yield typed.again(allow_pipe=True)
    elif first.kind == "io" and path is not None and UNPACK not in first.reason:
        yield "it is not a shard: download or write it again"
    elif first.kind == "io" and path is None:
        yield "the server failed several times: check that it is up, and the address"


def _next(report: "RunReport", out: Path, typed: Typed) -> Iterator[str]:
    """Yield the next commands."""
    if report.failures:
        yield from _after_failures(report, out, typed)
    elif report.warning:
        yield from _after_warning(report, out, typed)
        if report.tars and report.whole and not report.dry_run:
            # Some samples were kept nevertheless.
            yield from train_data_lines(out, as_folder(out), _not_written(report))
    elif report.dry_run:
        return
    elif not report.whole:
        yield f"other slices are not done yet; to see them: {Typed.spell('status', str(out))}"
    elif not report.tars:
        if store_of(out):
            # The commands that use ledgers need a local folder.
            return
        yield f"to choose thresholds by looking at samples: wdsflow report {quote_path(str(out))}"
        yield f"next: {Typed.spell('scores', ledger=out)}"
    elif any(record.output is not None for record in report.records):
        names = [record.name for record in report.records if record.output is not None]
        yield f"for Hugging Face datasets: {load_call(as_folder(out), names)}"
        yield from new_shards_lines(out, _not_written(report))


def _not_written(report: "RunReport") -> list[str]:
    """Return the names of outputs that do not exist, because no sample was kept."""
    return [record.name for record in report.records if record.output is None]


def _after_failures(report: "RunReport", out: Path, typed: Typed) -> Iterator[str]:
    lacking = next((failure for failure in report.failures if failure.kind == "ledger"), None)
    if lacking is not None:
        yield from measure_again(typed, lacking.missing)
        return
    count = len(report.failures)
    these = f"{count:,} shards are" if count > 1 else "1 shard is"
    yield f"{these} not done: fix this, and the same command resumes with {'them' if count > 1 else 'it'}"
    if report.dry_run:
        return
    if report.records and not report.total("samples"):
        # The other shards are empty.
        return
    # Nothing was decided, or the outputs are not numbered yet.
    if not any(out.glob("*.tar")):
        command = without_unreadable(typed, {failure.url for failure in report.failures}, out)
        if command and not typed.given.get("count"):
            yield f"without: {command}"
    elif report.total("kept"):
        yield f"to check the finished ones: wdsflow validate {quote_path(as_folder(out))}"


def _after_warning(report: "RunReport", out: Path, typed: Typed) -> Iterator[str]:
    reasons = report.merged("quarantined")
    if (
        typed.name in ("filter", "measure")
        and reasons
        and reasons.most_common(1)[0][0] == "scattered"
    ):
        yield from _after_scattered(typed)
        return
    first = next((record.name for record in report.records if record.quarantine), None)
    mostly = reasons.total() > report.merged("dropped").total()
    if first is not None and mostly and report.quarantine is not None and not report.dry_run:
        yield f"next: wdsflow inspect {quote_path(str(report.quarantine / first))}"
    elif "ledger" in typed.given and (where := _example(report, Path(typed.given["ledger"]))):
        yield f"next, for example: {typed.again(where=where, out=free(Path(out)), restart=None)}"
    elif (
        typed.name == "filter"
        and typed.given.keys() & {"where", "keep", "near", "recipe"}
        and report.total("samples")
    ):
        yield f"next: {typed.again(explain=True, out=None, restart=None, dry_run=None, export=None)}"


def _after_scattered(typed: Typed) -> Iterator[str]:
    """Yield the commands that bring the members of samples together, and then run again."""
    repaired = free(Path("repaired"))
    yield f"bring them together: {typed.look('repair', *typed.given['urls'], out=repaired)}"
    new = another(typed.given["out"])
    yield f"then: {typed.again(urls=[str(repaired)], out=new, restart=None, allow_pipe=None)}"


def _example(report: "RunReport", ledger: Path) -> str:
    from wdsflow.filtering.deciding.example_predicate import example_predicate
    from wdsflow.filtering.run_folder import Layout

    return example_predicate(Layout(ledger), [record.name for record in report.records])
