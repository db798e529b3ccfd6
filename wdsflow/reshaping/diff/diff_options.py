"""What a comparison of two sets of shards is asked for."""

import os
from dataclasses import dataclass

from wdsflow.shards.thread_jobs import Begin
from wdsflow.text.options import MACHINES, OTHER, option

Ledger = str | os.PathLike[str] | None


@dataclass(frozen=True, kw_only=True)
class DiffOptions:
    """What a comparison is asked for.

    Attributes:
        ledgers: output folders of ``filter`` or ``score``, whose scores are compared; by default those in the folders of
            the shards, if both have one.
        begin: called with the number of shards; what it returns is called after each of them.
    """

    shown: int = option(20, "Samples shown of each kind of difference.", "--show", metavar="N", least=0)
    jobs: int = option(2, "Shards read at once.", metavar="N", panel=MACHINES, least=1)
    allow_pipe: bool = option(False, "Run pipe: urls in a shell.", panel=OTHER)
    ledgers: tuple[Ledger, Ledger] | None = None
    begin: Begin | None = None
