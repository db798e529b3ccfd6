"""What to say and to do where a ledger does not fit its shards, or keeps too little."""

from collections.abc import Sequence

from wdsflow.filtering.deciding.ledger_subset import StagedLedger
from wdsflow.filtering.deciding.measure_advice import measure_command
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, LedgerOfOtherJoin
from wdsflow.text.shell import command as join
from wdsflow.text.shell import quote_path
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions, NothingKept, SubsetError
from wdsflow.training.stalls.field_fixes import rerun_command


def subset_fixes(options: FeedOptions, data: str, error: Exception) -> list[str]:
    """Return fixes for a ledger that cannot be used; each line ends with a command."""
    if options.ledger is None or options.where is None or not isinstance(error, LedgerError):
        return []
    urls = _urls(data)
    # No ledger of the shards can be used with the table, and none with it without.
    if isinstance(error, LedgerOfOtherJoin):
        return []
    if isinstance(error, StagedLedger):
        return [f"to write the samples that it keeps: {_cut_command(options, urls)}"]
    score, new = measure_command(urls, options.ledger, options.where)
    missing = getattr(error, "call", "") or "what it needs"
    return [f"to compute {missing}: {score}", f"then: {rerun_command(options, ledger=str(new))}"]


def terms_fix(options: FeedOptions, data: str) -> str:
    """Return a fix for a predicate that keeps too little; it ends with a command."""
    return f"to see which term drops how many: {_cut_command(options, _urls(data))} --dry-run"


def kept_text(kept: int, samples: int, with_some: int, shards: int) -> str:
    """Return a line on the kept share of shards.

    >>> kept_text(30, 100, 4, 5)
    'the ledger keeps 30 of 100 samples (30.0%), in 4 of 5 shards'
    """
    share = f"{kept / samples:.1%}" if samples else "0%"
    where = (
        how_many(shards, "shard")
        if with_some == shards
        else f"{with_some:,} of {how_many(shards, 'shard')}"
    )
    return f"the ledger keeps {kept:,} of {how_many(samples, 'sample')} ({share}), in {where}"


def subset_error(error: Exception, options: FeedOptions, data: str) -> SubsetError:
    """Return the error for a ledger that cannot be used, with fixes."""
    return SubsetError("\n  ".join([str(error), *subset_fixes(options, data, error)]))


def nothing_kept_error(options: FeedOptions, data: str, samples: int, shards: int) -> NothingKept:
    """Return the error for a predicate that keeps none of the samples."""
    lost = f"{options.where} keeps none of {how_many(samples, 'sample')} in {how_many(shards, 'shard')}"
    return NothingKept(f"{lost}\n  {terms_fix(options, data)}")


def _urls(data: str) -> list[str]:
    return data.split("::") if data else ["SHARDS"]


def _cut_command(options: FeedOptions, urls: Sequence[str]) -> str:
    assert options.ledger is not None
    new = f"{options.ledger.rstrip('/')}-kept"
    shown = " ".join(map(quote_path, urls))
    choice = join(["--ledger", options.ledger, "--where", options.where or ""])
    return f"wdsflow filter {shown} -o {quote_path(new)} {choice}"
