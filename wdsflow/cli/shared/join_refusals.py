"""Messages of commands whose join with a table, or whose samples, are refused."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from wdsflow.shards.urls import compact
from wdsflow.text.shell import escape, quote_path

from .typed import Typed, free

if TYPE_CHECKING:
    from wdsflow.reshaping.graft.refused_joins import ContradictedJoin, NoMatch
    from wdsflow.reshaping.graft.table_errors import NoColumn

_OF_LEDGER = ("ledger", "where", "keep", "unknown")
_OF_GRAFT = ("on", "fields", "ambiguous", "drop_unmatched")


def _about_apart(_: Exception, typed: Typed) -> list[str]:
    """Return the commands that bring the members of samples together, for a reshard."""
    source, steps = " ".join(map(quote_path, compact(typed.given["urls"]))), []
    if typed.given.get("ledger"):  # samples may meet only where others are left out
        steps.append(f"wdsflow cut {source} -o {(source := str(free(Path('kept'))))}" + typed.words(*_OF_LEDGER))
    if table := typed.given.get("table"):
        target = str(free(Path("grafted")))
        steps.append(f"wdsflow graft {source} --from {quote_path(str(table))}{typed.words(*_OF_GRAFT)} -o {target}")
        source = target
    repaired = free(Path("repaired"))
    steps.append(f"wdsflow repair {source} -o {repaired}" + (" --allow-pipe" if typed.given.get("allow_pipe") else ""))
    gone = dict.fromkeys((*_OF_LEDGER, "table", *_OF_GRAFT, "allow_pipe"))
    steps.append(typed.again(**gone, urls=[str(repaired)]))
    return [f"bring them together: {steps[0]}", *(f"then: {step}" for step in steps[1:])]


_RESOLUTIONS = {
    "first": "the first sample gets the first row",
    "each": "each of the samples gets the first row",
    "drop": "none of them gets any",
}


def _instead(column: str) -> str:
    return "xxh3" if column == "image_xxh3" else f"json:{column}"


def _no_match(error: "NoMatch", typed: Typed) -> NoReturn:
    outcome = "nothing is served" if typed.name == "serve" else "nothing was written"
    print(f"wdsflow: {outcome}: {escape(str(error), 500)}", file=sys.stderr)
    for line in error.advice:
        print(f"  {escape(line, 500)}", file=sys.stderr)
    print(f"  see what samples have: {typed.look('inspect', *typed.given['urls'], keys=5)}", file=sys.stderr)
    sys.exit(1)


def _other_columns(error: "NoColumn", typed: Typed) -> str:
    """Return the command with columns that there are; "" if it is not known which are meant."""
    from wdsflow.reshaping.graft.join_on import parse_on, parse_set

    wanted = parse_on(typed.given["on"]).column
    near = error.near(wanted) or (next(filter(str.isprintable, error.names), "") if len(error.names) > 1 else "")
    names = {wanted: near}
    names |= {each.column: error.near(each.column) for each in parse_set(typed.given["fields"])}
    names |= {name: name for name in names if name in error.names}
    if error.column in error.names or not all(names.values()) or error.is_parted_otherwise:
        return ""
    on = typed.given["on"] if names[wanted] == wanted else f"{typed.given['on'].partition('=')[0]}={names[wanted]}"
    fields = [f"{text.partition('=')[0]}={names[text.partition('=')[2]]}" for text in typed.given["fields"]]
    return f"such as: {typed.again(on=on, fields=fields)}"


def _about_contradiction(error: "ContradictedJoin", typed: Typed) -> list[str]:
    return [*error.evidence, f"join on the {error.column}: {typed.again(on=_instead(error.column))}"]


JOINS: dict[str, Callable[[Any, Typed], Iterable[str]]] = {
    "MembersApart": _about_apart,
    "NoMatch": _no_match,
    "AmbiguousJoin": lambda _, typed: [f"{why}: {typed.again(ambiguous=how)}" for how, why in _RESOLUTIONS.items()],
    "ContradictedJoin": _about_contradiction,
    "NoColumn": lambda error, typed: [*error.advice, _other_columns(error, typed)],
    "NoTable": lambda error, typed: [f"such as: {typed.again(table=error.near)}" if error.near else ""],
    "TableError": lambda error, _: error.advice,
    "WrongJoin": lambda error, typed: (
        [f"for a value in the json: {typed.again(on=f'json:{error.text}')}"] if error.text else []
    ),
}
