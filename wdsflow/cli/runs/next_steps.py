"""The commands after a run of ``filter``, ``measure`` or ``merge``."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.advice_on_outputs import without_unreadable
from wdsflow.cli.shared.advice_on_scores import measure_again
from wdsflow.cli.shared.next_commands import as_folder, new_shards_lines
from wdsflow.cli.shared.typed import Typed, other_output, unused_path
from wdsflow.records.load_dataset import load_call
from wdsflow.records.train_data import train_data_lines
from wdsflow.records.working_folder import store_of
from wdsflow.text.shell import quote_path
from wdsflow.text.words import how_many

if TYPE_CHECKING:
    from wdsflow.filtering.run_report import RunReport

# Options that decide which samples are kept.
_CONDITIONS = frozenset({"where", "keep", "near", "recipe"})

# Samples that an advised command shows.
_SHOWN = 5


def next_steps(report: "RunReport", out: Path, typed: Typed) -> Iterator[str]:
    """Yield the next commands, one line each."""
    if report.failures:
        yield from _after_failures(report, out, typed)
    elif report.warning:
        yield from _after_warning(report, out, typed)
        if report.tars and report.whole and not report.dry_run:
            # Nothing is printed if no sample was kept: sizes.json is empty then.
            yield from train_data_lines(out, as_folder(out), _not_written(report))
    elif report.dry_run:
        return
    elif not report.whole:
        yield f"other slices are not done yet; to see them: {Typed.spell_command('status', str(out))}"
    elif not report.tars:
        yield from _after_measuring(out)
    else:
        yield from _to_see_dropped(report, out, typed)
        yield from _after_writing(report, out)


def _after_measuring(out: Path) -> Iterator[str]:
    # The commands that use ledgers need a local folder.
    if store_of(out):
        return
    yield f"to choose thresholds by looking at samples: wdsflow report {quote_path(str(out))}"
    yield f"next: {Typed.spell_command('scores', ledger=out)}"


def _to_see_dropped(report: "RunReport", out: Path, typed: Typed) -> Iterator[str]:
    """Yield the command that shows samples with what was decided of them, if some were dropped."""
    # A ledger is read from a local folder; who completes slices names no shards.
    urls = typed.given.get("urls")
    if store_of(out) or not urls or not report.merged("dropped").total():
        return
    command = typed.other_command("inspect", *urls, sample=_SHOWN, ledger=out)
    yield f"to see what was dropped, and why: {command}"


def _after_writing(report: "RunReport", out: Path) -> Iterator[str]:
    written = [record.name for record in report.records if record.output is not None]
    if not written:
        return
    yield f"for Hugging Face datasets: {load_call(as_folder(out), written)}"
    yield from new_shards_lines(out, _not_written(report))


def _not_written(report: "RunReport") -> list[str]:
    """Return the names of outputs that do not exist, because no sample was kept."""
    return [record.name for record in report.records if record.output is None]


def _after_failures(report: "RunReport", out: Path, typed: Typed) -> Iterator[str]:
    for failure in report.failures:
        if failure.kind == "ledger":
            yield from measure_again(typed, failure.missing)
            return
    count = len(report.failures)
    if report.dry_run:
        yield f"{how_many(count, 'shard')} could not be read: fix this before the run without --dry-run"
        return
    if count == 1:
        yield "1 shard is not done: fix this, and the same command resumes with it"
    else:
        yield f"{count:,} shards are not done: fix this, and the same command resumes with them"
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
    if typed.is_filter and _is_scattered_most_common(report):
        yield from _after_scattered(typed)
        return
    quarantined = _quarantined_shard(report)
    if quarantined is not None:
        yield f"next: wdsflow inspect {quote_path(str(quarantined))}"
        return
    if "ledger" in typed.given:
        example = _example(report, Path(typed.given["ledger"]))
        if example:
            again = typed.command_with(where=example, out=unused_path(Path(out)), restart=None)
            yield f"next, for example: {again}"
            return
    has_condition = bool(typed.given.keys() & _CONDITIONS)
    if typed.name == "filter" and has_condition and report.total("samples"):
        yield f"next: {typed.command_with(explain=True, out=None, restart=None, dry_run=None, export=None)}"


def _is_scattered_most_common(report: "RunReport") -> bool:
    """Return whether members that are not adjacent are the most common reason of quarantine."""
    reasons = report.merged("quarantined")
    if not reasons:
        return False
    most_common, _count = reasons.most_common(1)[0]
    return most_common == "scattered"


def _quarantined_shard(report: "RunReport") -> Path | None:
    """Return a shard of quarantined samples to look at, if more are quarantined than dropped."""
    if report.dry_run or report.quarantine is None:
        return None
    if report.merged("quarantined").total() <= report.merged("dropped").total():
        return None
    for record in report.records:
        if record.quarantine:
            return report.quarantine / record.name
    return None


def _after_scattered(typed: Typed) -> Iterator[str]:
    """Yield the commands that bring the members of samples together, and then run again."""
    repaired = unused_path(Path("repaired"))
    yield f"bring them together: {typed.other_command('repair', *typed.given['urls'], out=repaired)}"
    new = other_output(typed.given["out"])
    yield f"then: {typed.command_with(urls=[str(repaired)], out=new, restart=None, allow_pipe=None)}"


def _example(report: "RunReport", ledger: Path) -> str:
    from wdsflow.filtering.deciding.example_predicate import example_predicate
    from wdsflow.records.run_folder import Layout

    return example_predicate(Layout(ledger), [record.name for record in report.records])
