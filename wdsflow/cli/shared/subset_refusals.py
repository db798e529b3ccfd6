"""Messages of ``train`` about the samples of a ledger that it is to train on."""

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from .nearest_paths import nearest_ledger
from .terminal import fail as refuse
from .typed import Typed

if TYPE_CHECKING:
    from wdsflow.training.feed_options import FeedOptions


def about_unpaired(_: Exception, typed: Typed) -> NoReturn:
    """Report that a ledger is given without a predicate, or a predicate without a ledger, with the missing one."""
    ledger, where, argv = typed.given.get("ledger"), typed.given.get("where"), typed.after_dashes or []
    from wdsflow.filtering.deciding.ledger_subset import score_command
    from wdsflow.filtering.deciding.score_column import example_predicate
    from wdsflow.filtering.run_folder import Layout
    from wdsflow.validate.advice.invocation import train_data

    if ledger is not None:
        layout = Layout(Path(ledger))
        names = sorted(f"{path.stem}.tar" for path in (layout.inside / "ledger").glob("*.parquet"))
        found = example_predicate(layout, names)
        refuse(
            "--ledger needs --where, which says what to keep", f"such as: {typed.again(where=found)}" if found else ""
        )
    lacks = "--where needs --ledger: the folder with the scores"
    near = nearest_ledger(Path("scored").absolute())
    if near is not None:
        refuse(lacks, f"with the ledgers in {near}: {typed.again(ledger=near)}")
    try:
        score, new = score_command((train_data(argv) or "SHARDS").split("::"), "scored", where or "")
    except ValueError as error:
        refuse(str(error))
    refuse(lacks, f"to compute them: {score}", f"then: {typed.again(ledger=new)}")


def check_subset(options: "FeedOptions", typed: Typed, *, dry_run: bool) -> None:
    """Refuse a ledger or a predicate that no training can use."""
    if options.ledger is None or options.where is None:
        return
    from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
    from wdsflow.filtering.ledger.ledger_row import LedgerError, MissingScore
    from wdsflow.training.feed.subset import subset_fixes
    from wdsflow.validate.advice.invocation import train_data

    try:
        LedgerSubset.of(options.ledger, options.where)
    except LedgerError as error:
        asked = Path(options.ledger)
        near = None if isinstance(error, MissingScore) else nearest_ledger(asked)
        if near is not None and near != asked and not (asked / "_wdsflow").is_dir():
            refuse(str(error), f"with the ledgers in {near}: {typed.again(ledger=near)}")
        flags = ["--dry-run"] if dry_run else []
        refuse(str(error), *subset_fixes(options, train_data(options.argv) or "", error, *flags))
    except ValueError as error:
        refuse(str(error))
