"""Two passes over the shards, for scores that compare all samples.

The first scores samples and gathers data. The second compares all samples and decides.
"""

from contextlib import suppress
from dataclasses import replace

from wdsflow.filtering.deciding.compare_samples import compare_samples
from wdsflow.filtering.joined_samples import digest_of
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, check_same_shard, read_metadata
from wdsflow.filtering.recipe.recipe import digest
from wdsflow.filtering.run_options import RunOptions
from wdsflow.filtering.run_report import RunReport
from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.shards.shard_identity import fingerprint, joined_identity
from wdsflow.shards.source.base import SourceError

from .filter_pass import Pass
from .run_pass import run_pass


def refuse_slices(options: RunOptions, *, compares: bool) -> None:
    """Raise ValueError if scores compare all samples, but the run is one slice of the shards."""
    if compares and options.count > 1:
        raise ValueError(
            "a score that compares all samples cannot run in slices: measure the slices without it, or run without --shard-count"
        )


def first_pass_of(second: Pass, *, reused: Layout | None = None) -> Pass:
    """Return the pass that computes and gathers what a second pass needs to compare samples.

    ``reused``: ledgers of another run that have some of the values.
    """
    return Pass(
        "measure",
        second.urls,
        second.names,
        second.layout.scored,
        second.recipe,
        replace(second.options, dry_run=False, restart=False),
        tars=False,
        reused=reused,
        main_layout=second.layout if second.kind == "measure" else None,
        embeddings_from=second.embeddings_from,
        sources=second.sources,
        join=second.join,
        cluster=second.cluster,
    )


def run_first_pass(first: Pass, second: Pass, report: RunReport) -> bool:
    """Run the first of two passes, and compare all samples. Return False if it failed."""
    first_report = run_pass(first)
    report.changed = first_report.changed
    if first_report.failures:
        report.failures = first_report.failures
        report.whole = False
        report.waits_for = tuple(map(str, second.plan.dataset_calls))
        return False
    second.scores_from = first.layout
    second.computes_missing = False
    depend_on_ledgers(second, first.layout)
    return True


def depend_on_ledgers(pass_: Pass, scored: Layout) -> None:
    """Make a pass depend on the ledgers of its shards, and compare all samples if needed.

    Raises LedgerError; NotCompared if samples were not scored for the comparison.
    """
    identities = {}
    missing = []
    for name in pass_.names:
        ledger = scored.ledger(name)
        if ledger.is_file():
            identities[name] = fingerprint(str(ledger))
        else:
            missing.append(name)
    # Otherwise the shards without one are reported as not done.
    if missing and (pass_.compares or not identities):
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise LedgerError(
            f"{scored.folder} has no ledger of {missing[0]}{more}: measure the shards, or leave them out"
        )
    pass_.sources = digest([identities.get(name) for name in pass_.names])
    if not pass_.compares:
        return
    _check_ledgers(pass_, scored)
    compare_samples(pass_.plan, list(enumerate(pass_.names)), scored, pass_.layout)


def _check_ledgers(pass_: Pass, scored: Layout) -> None:
    """Raise OtherShard if a shard has changed since its ledger was written."""
    for url, name in zip(pass_.urls, pass_.names, strict=True):
        ledger = scored.ledger(name)
        # If a shard cannot be read now, the others are unaffected.
        with suppress(SourceError):
            identity = joined_identity(url, digest_of(pass_.join, url))
            record = ShardRecord(0, url, name, "", identity)
            check_same_shard(read_metadata(ledger), record, ledger)
