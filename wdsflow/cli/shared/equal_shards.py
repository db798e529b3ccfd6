"""Options of commands that make shards of other sizes or in another order, and why these may be refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from wdsflow.shards.compact import compact
from wdsflow.text.shell import quote_path

from .terminal import fail
from .typed_command import Typed, free

_OF_LEDGER = ("ledger", "where", "keep", "unknown")
_OF_GRAFT = ("on", "fields", "ambiguous", "drop_unmatched")

Samples = Annotated[int | None, typer.Option(metavar="N", help="At most N samples in a shard; all shards equal.")]
Size = Annotated[str | None, typer.Option(metavar="SIZE", help="At most so many bytes in a shard, such as 1GB.")]
Shards = Annotated[int | None, typer.Option(metavar="N", help="N shards of equal size.")]
DivisibleBy = Annotated[
    str | None,
    typer.Option(
        metavar="RANKSxWORKERS",
        help="A number of shards that all loader workers can share, such as 8x4: a multiple of 32.",
    ),
]
Shuffle = Annotated[
    int | None, typer.Option(metavar="SEED", help="Shuffle all samples; the same seed gives the same order.")
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
        source, steps = " ".join(map(quote_path, compact(urls))), []
        if typed.given.get("ledger"):  # samples may meet only where others are left out
            steps.append(f"wdsflow cut {source} -o {(source := str(free(Path('kept'))))}" + typed.words(*_OF_LEDGER))
        if table := typed.given.get("table"):
            target = str(free(Path("grafted")))
            steps.append(f"wdsflow graft {source} --from {quote_path(str(table))}{typed.words(*_OF_GRAFT)} -o {target}")
            source = target
        repaired = free(Path("repaired"))
        steps.append(f"wdsflow repair {source} -o {repaired}{pipe}")
        gone = dict.fromkeys((*_OF_LEDGER, "table", *_OF_GRAFT, "allow_pipe"))
        steps.append(typed.again(**gone, urls=[str(repaired)]))
        fail(str(error), f"bring them together: {steps[0]}", *(f"then: {step}" for step in steps[1:]))
