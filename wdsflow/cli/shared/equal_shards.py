"""Options of commands that make shards of other sizes or in another order, and why these may be refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from .terminal import fail
from .typed_command import Typed, free

Samples = Annotated[
    int | None, typer.Option(metavar="N", help="At most N samples in a shard; all shards equal.", show_default=False)
]
Size = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="At most so many bytes in a shard, such as 1GB.", show_default=False),
]
Shards = Annotated[
    int | None, typer.Option(metavar="N", help="N shards of equal size; of a split, for each part.", show_default=False)
]
DivisibleBy = Annotated[
    str | None,
    typer.Option(
        metavar="RANKSxWORKERS",
        help="A number of shards that all loader workers can share, such as 8x4: a multiple of 32.",
        show_default=False,
    ),
]
Shuffle = Annotated[
    int | None,
    typer.Option(metavar="SEED", help="Shuffle all samples; the same seed gives the same order.", show_default=False),
]


@contextmanager
def explained_apart(typed: Typed, urls: list[str], pipe: str = "") -> Iterator[None]:
    """Report that members of a sample are not next to each other, and what to do; exit with status 2.

    ``pipe``: the flag that lets other commands read the same urls.
    """
    from wdsflow.reshaping.reshard.members_apart import MembersApart

    try:
        yield
    except MembersApart as error:
        repaired = free(Path("repaired"))
        first = Typed.spell("repair", *urls, out=repaired) + pipe
        again = {"urls": [str(repaired)], "allow_pipe": None}
        if typed.given.get("ledger"):
            fail(str(error), f"bring them together: {first}", "then score again, and use the new scores")
        fail(str(error), f"bring them together: {first}", f"then: {typed.again(**again)}")
