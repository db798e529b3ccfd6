"""Messages of commands that refuse or fail: the reason, and commands that fix it."""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from wdsflow.records.working_folder import remote_url, store_of
from wdsflow.shards.written_names import spelled
from wdsflow.text.shell import escape, quote_path

from .nearest_paths import existing, nearest_ledger
from .run_arguments import Misuse
from .terminal import WRONG_USE, about_shards, cannot_write, is_misplaced
from .typed import Typed, another, free

if TYPE_CHECKING:
    from wdsflow.packing.folder_names import PatternName
    from wdsflow.packing.folder_rows import HoldsTables
    from wdsflow.packing.layouts import WhichColumn
    from wdsflow.reshaping.graft.graft_errors import ContradictedJoin, NoMatch
    from wdsflow.table_files.errors import NoColumn, NoTable


def _about_interleaved(_: Exception, typed: Typed) -> list[str]:
    """Return the commands that bring the members of samples together, for a reshard."""
    repaired = free(Path("repaired"))
    return [
        f"bring them together: {typed.look('repair', *typed.given['urls'], out=repaired)}",
        f"then: {typed.again(allow_pipe=None, urls=[str(repaired)])}",
    ]


_RESOLUTIONS = {
    "first": "the first sample gets the first row",
    "each": "each of the samples gets the first row",
    "drop": "none of them gets any",
}


def _no_match(error: "NoMatch", typed: Typed) -> NoReturn:
    print(f"wdsflow: nothing was written: {escape(str(error), 500)}", file=sys.stderr)
    for line in error.advice:
        print(f"  {escape(line, 500)}", file=sys.stderr)
    print(f"  see what samples have: {typed.look('inspect', *typed.given['urls'], keys=5)}", file=sys.stderr)
    sys.exit(1)


def _other_columns(error: "NoColumn", typed: Typed) -> str:
    """Return the command with existing columns of similar names; "" if a column has none."""
    if typed.name == "pack":
        changed = {name: near for name in ("image", "caption", "key") if (near := _near_column(error, typed, name))}
        return f"such as: {typed.again(**changed)}" if changed else ""
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


def _about_no_table(error: "NoTable", typed: Typed) -> Iterator[str]:
    if error.near and "tables" in typed.given:
        tables = [error.near if each == error.named else each for each in typed.given["tables"]]
        yield f"such as: {typed.again(tables=tables)}"
    elif error.near:
        yield f"such as: {typed.again(table=error.near)}"


def _near_column(error: "NoColumn", typed: Typed, name: str) -> str:
    """Return an existing column with a name like the one that an option of pack has; "" if it needs none."""
    return error.near(error.column) if typed.given.get(name) == error.column != error.near(error.column) else ""


def _about_which_column(error: "WhichColumn", typed: Typed) -> Iterator[str]:
    """Yield the command with each of the columns that could be meant."""
    for column in error.columns[:3]:
        yield f"such as: {typed.again(**{error.option: column})}"
    if error.option == "caption":
        yield f"for none: {typed.again(caption='')}"


def _about_tables_of_folder(error: "HoldsTables", typed: Typed) -> Iterator[str]:
    """Yield the command with the tables in place of their folder."""
    if error.tables:
        tables: list[str] = []
        # A pattern that matched the folder is not repeated: the command would be refused again.
        for named in typed.given["tables"] if error.named in typed.given["tables"] else [error.named]:
            tables += error.tables if named == error.named else [named]
        yield f"to pack {'it' if len(error.tables) == 1 else 'them'}: {typed.again(tables=tables)}"
    yield from error.advice
    yield "to pack the files by their names, without a table: move tables out of there"


def _about_pattern_name(error: "PatternName", typed: Typed) -> list[str]:
    out = error.instead if remote_url(error.instead) else free(Path(error.instead))
    return [f"such as: {typed.again(out=out)}"]


def _about_contradiction(error: "ContradictedJoin", typed: Typed) -> list[str]:
    on = "xxh3" if error.column == "image_xxh3" else f"json:{error.column}"
    return [*error.evidence, f"join on the {error.column}: {typed.again(on=on)}"]


# A predicate for any shards.
_EXAMPLE = "min_side >= 200"
_DECIDE = frozenset({"filter", "measure"})
EXPLAIN_THEMSELVES = frozenset({"validate", "inspect", "explain", "scores", "report", "doctor", "train"})


def is_resumable(typed: Typed) -> bool:
    """Return whether the same command resumes an interrupted run."""
    return "--restart" in typed.options()


def _copies(typed: Typed) -> bool:
    return is_resumable(typed) and typed.name not in _DECIDE


def refuse(message: str, *hints: str) -> NoReturn:
    """Report the problem, then fixes, one line each; exit with status 2."""
    print("wdsflow: " + "\n".join(escape(line, 2_000) for line in message.split("\n")), file=sys.stderr)
    for hint in hints:
        if hint:
            print(f"  {escape(hint, 100_000)}", file=sys.stderr)
    sys.exit(WRONG_USE)


@contextlib.contextmanager
def explained(typed: Typed) -> Iterator[None]:
    """Turn errors before and during a run into a message and an exit status."""
    from wdsflow.records.unfinished import resumed_by

    again = typed.again(restart=None)
    try:
        with resumed_by(again):
            yield
    except KeyboardInterrupt:
        if is_resumable(typed):
            print(f"wdsflow: interrupted; to resume: {again}", file=sys.stderr)
        raise
    except BrokenPipeError:
        # The output was closed: the run is not at fault.
        raise
    except Exception as error:
        known = next((_HINTS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _HINTS), None)
        if known is None:
            raise
        refuse(str(error), *known(error, typed))


# A folder that need not be named.
_OUT = {"index": "index"}


def _elsewhere(typed: Typed) -> str:
    return typed.again(out=another(typed.given.get("out") or _OUT.get(typed.name, "out")), restart=None)


def _about_captions(error: Any, typed: Typed) -> Iterator[str]:
    from wdsflow.stages.scores.sample_fields import CAPTIONS

    if error.found is None:
        return
    yield str(error.found)
    place, given = error.found.place, typed.given
    texts = {name: given[name] for name in ("where", "keep", "scores") if name in given}
    changed: dict[str, Any] = {name: _replaced(text, error.place, place) for name, text in texts.items()}
    # Not only set for single scores.
    if changed == texts or given.get("caption", CAPTIONS) == error.place:
        changed["caption"] = place
    yield typed.again(**changed)


def _about_json(error: Any, typed: Typed) -> Iterator[str]:
    """Yield the nearest name in the json of samples, and commands with it, or without samples that lack it."""
    yield from _nearest_json(error, typed)
    if not error.every and isinstance(where := typed.given.get("where"), str):
        call = f"{error.score.name}({error.score.path!r})"
        yield f"if others have it, drop those without: {typed.again(where=f'{call} is not None and ({where})')}"


def _nearest_json(error: Any, typed: Typed) -> Iterator[str]:
    if error.found is None:
        if error.there:
            names = ", ".join(f"{each.score}({each.path!r})" for each in error.there)
            yield f"samples have {names}"
        yield f"to see the json of some samples: {typed.look('inspect', *typed.given.get('urls', ()), sample=3)}"
        return
    yield str(error.found)
    texts = {name: typed.given[name] for name in ("where", "keep", "scores") if name in typed.given}
    old, new = (error.score.name, error.score.path), (error.found.score, error.found.path)
    changed = {name: _each(text, lambda one: _with_name(one, old, new)) for name, text in texts.items()}
    # Otherwise a text would be compared as a number.
    if changed != texts and old[0] == new[0]:
        yield typed.again(**changed)


def _with_name(text: str, old: tuple[str, str], new: tuple[str, str]) -> str:
    """Return a predicate in which the (score, name) of a value in json is replaced."""
    known = rf"""\b{old[0]}(\(\s*(?:path\s*=\s*)?)(["']){re.escape(old[1])}\2"""
    return re.sub(known, lambda found: f"{new[0]}{found[1]}{found[2]}{new[1]}{found[2]}", text)


def _replaced(value: Any, old: str, new: str) -> Any:
    """Return a predicate, or scores, in which the place of captions in settings of scores is replaced."""
    known = rf"""(?<=caption=)(["']){re.escape(old)}\1"""
    return _each(value, lambda text: re.sub(known, lambda found: f"{found[1]}{new}{found[1]}", text))


def _each(value: Any, change: Callable[[str], str]) -> Any:
    return change(value) if isinstance(value, str) else [change(text) for text in value]


def _about_ledger(typed: Typed) -> Iterator[str]:
    option = "embeddings_from" if "embeddings_from" in typed.given else "ledger"
    ledger = Path(typed.given.get(option) or ".")
    near = nearest_ledger(ledger)
    if near is not None and near != ledger and option in typed.given:
        yield f"with the ledgers in {near}: {typed.again(**{option: near})}"
    elif typed.name == "filter" and "ledger" in typed.given:
        yield from measure_again(typed)


def measure_again(typed: Typed, lacks: str = "") -> Iterator[str]:
    """Yield the commands that compute the missing scores, with the recipe of the ledger if any, and then filter."""
    from wdsflow.filtering.deciding.ledger_subset import needed_scores, scores_to_add
    from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe

    old, where = typed.given.get("ledger"), typed.given.get("where")
    keep = tuple(typed.given.get("keep") or ())
    if where is None and not keep and old is not None:
        return
    where = where or (None if keep else _EXAMPLE)
    recipe = canonical_recipe(Recipe(where=where or "", keep=keep))
    urls, new, run_file = typed.given["urls"], free(Path(old or "scored")), Path(old or "") / ".wdsflow" / "run.json"
    if old is not None and (added := scores_to_add(urls, Path(old), recipe)) is not None:
        (urls, calls), new = added, Path(old)
        score = Typed.spell("measure", *urls, out=new, scores=calls)
    else:
        calls = needed_scores(recipe)
        score = Typed.spell("measure", *urls, out=new, scores=calls, recipe=run_file if run_file.is_file() else None)
    yield f"to compute {lacks or 'what it needs'}: {score}"
    yield f"then: {typed.again(ledger=new, where=where)}"


def _after_engine(_: Exception, typed: Typed) -> list[str]:
    there = "on this machine" if "engine" in typed.given else "to resume"
    return [f"finished shards are kept; {there}: {typed.again(restart=None, engine=None, address=None)}"]


def _about_file(error: OSError, typed: Typed) -> tuple[str, str]:
    """Return the file that could not be written, and a fix."""
    message = f"cannot write: {error.strerror or error}"
    if error.filename is not None and str(error.filename) not in str(error.strerror):
        message += f": {error.filename}"
    exports = typed.given.get("export") or ()
    if error.filename in map(str, exports) and is_misplaced(error, Path(error.filename)):
        others = [free(path) if str(path) == error.filename else path for path in exports]
        return message, f"elsewhere: {typed.again(export=others)}"
    if "out" in typed.given and is_misplaced(error, Path(typed.given["out"])):
        return message, f"elsewhere: {_elsewhere(typed)}"
    then = f"to resume when that is fixed: {typed.again(restart=None)}"
    return message, f"finished shards are kept, partial ones removed; {then}"


def readable(typed: Typed, failed: set[str], out: Path) -> str:
    """Return the command without unreadable shards, with --restart; many shards are listed in a file."""
    left = [url for url in existing(typed.given["urls"]) if url not in failed]
    if not left:
        return ""
    if len(left) > 5 and (store_of(out) or any("\n" in url or url.hides for url in left)):
        # A list is a local file, with a name a line, and without passwords.
        return ""
    if len(left) > 5:
        listed = out / ".wdsflow" / "readable.txt"
        lines = "".join(f"{spelled(url)}\n" for url in left)
        listed.write_text(lines, encoding="utf-8", errors="surrogateescape")
        return typed.again(urls=[f"@{listed}"], restart=True)
    return typed.again(urls=left, restart=True)


def _about_value(error: ValueError, typed: Typed) -> Iterator[str]:
    if typed.name == "index" and "give a folder" in str(error):
        yield f"elsewhere: {_elsewhere(typed)}"
    elif _copies(typed):
        yield f"to see the options: wdsflow {typed.name} --help"


def _about_other_options(_: Exception, typed: Typed) -> Iterator[str]:
    these = "it" if typed.name in _DECIDE else "them"
    if not typed.given.get("count"):
        yield f"to replace {these}: {typed.again(restart=True)}"
    yield f"to keep {these}: {_elsewhere(typed)}"


def _about_misuse(error: Misuse, typed: Typed) -> Iterator[str]:
    yield from error.hints
    if error.changed:
        yield typed.again(**error.changed)


def _about_source(error: Exception, typed: Typed) -> list[str]:
    if _copies(typed):
        return ["finished shards are kept, and the same command writes the others again"]
    refuse(f"cannot read: {error}")


def _about_output(error: OSError, typed: Typed) -> NoReturn:
    """Report the file that could not be written, and a fix."""
    if typed.name in _DECIDE:
        refuse(*_about_file(error, typed))
    if is_misplaced(error, Path(typed.given.get("out") or _OUT.get(typed.name, "."))):
        cannot_write(error, f"elsewhere: {_elsewhere(typed)}")
    finished = "files" if typed.name == "index" else "shards"
    cannot_write(error, f"free space there: finished {finished} are kept, and the same command resumes")


def _about_permission(error: PermissionError, typed: Typed) -> NoReturn:
    """Report a file that cannot be read, or what cannot be written, with a fix."""
    path, out = str(error.filename or ""), typed.given.get("out") or _OUT.get(typed.name, "")
    outputs = [str(out), *map(str, typed.given.get("export") or ())] if is_resumable(typed) else []
    if not path or any(path == output or path.startswith(f"{output}/") for output in outputs):
        _about_output(error, typed)
    refuse_unreadable(error)


def refuse_unreadable(error: PermissionError) -> NoReturn:
    """Report a file that this user may not open; exit with status 2."""
    refuse(f"cannot open {error.filename}: {error.strerror}", f"to see who may: {_look_at(str(error.filename))}")


def _look_at(path: str) -> str:
    """Return a command that shows the permissions of a path, or of the first folder above it that cannot be opened."""
    shown = path
    while shown and not os.path.lexists(shown):
        shown = os.path.dirname(shown)
    return f"ls -ld {quote_path(shown or '.')}"


def _about_unpaired(_: Exception, typed: Typed) -> NoReturn:
    from wdsflow.cli.train import refuse_unpaired

    refuse_unpaired(typed)


def _see(_: Exception, typed: Typed) -> list[str]:
    return [f"see what is wrong: {typed.look('validate', *typed.given['urls'])}"]


# By the names of classes, which are not all imported.
_HINTS: dict[str, Callable[[Any, Typed], Iterable[str]]] = {
    "NoShards": about_shards,
    "UnknownReader": lambda *_: [],
    "NoCaptions": _about_captions,
    "NoJsonValue": _about_json,
    "MissingScore": lambda error, typed: measure_again(typed, error.call),
    "LedgerError": lambda _, typed: _about_ledger(typed),
    "Differs": _about_other_options,
    "OtherOptions": _about_other_options,
    "QuarantineTaken": lambda _, typed: [typed.again(quarantine=free(Path(f"{typed.given['out']}-quarantine")))],
    "FileExistsError": lambda _, typed: [f"elsewhere: {_elsewhere(typed)}"] if "out" in typed.given else [],
    "TooLittleMemory": lambda error, typed: [typed.again(memory=f"{-(-error.least >> 20)}MiB")],
    "Misuse": _about_misuse,
    "Busy": lambda _, typed: [f"to run at the same time, in another folder: {_elsewhere(typed)}"],
    # The same command would fail again.
    "BrokenRunError": lambda *_: [],
    "EngineError": _after_engine,
    "SourceError": _about_source,
    "StoreError": lambda error, typed: refuse(*_about_file(error, typed)),
    "PermissionError": _about_permission,
    "OSError": _about_output,
    "SettledByLedger": lambda error, typed: [typed.again(**dict.fromkeys(error.options))],
    "LocalOnly": lambda error, typed: [typed.again(**dict.fromkeys(error.options))],
    "ValueError": _about_value,
    "NothingRead": _see,
    "RepeatedKeys": lambda _, typed: [f"give them other keys: {typed.again(repeated_keys=None)}"],
    "PartOfSet": lambda error, typed: [
        f"to index all shards: {typed.again(urls=error.folders)}",
        f"to list only those given: {typed.again(restart=True)}",
    ],
    "UnpairedSubset": _about_unpaired,
    "InterleavedMembers": _about_interleaved,
    "NoMatch": _no_match,
    "AmbiguousJoin": lambda _, typed: [f"{why}: {typed.again(ambiguous=how)}" for how, why in _RESOLUTIONS.items()],
    "ContradictedJoin": _about_contradiction,
    "NoColumn": lambda error, typed: [*error.advice, _other_columns(error, typed)],
    "NoTable": _about_no_table,
    "WhichColumn": _about_which_column,
    "HoldsTables": _about_tables_of_folder,
    "PatternName": _about_pattern_name,
    "TableError": lambda error, _: error.advice,
    "WrongJoin": lambda error, typed: (
        [f"for a value in the json: {typed.again(on=f'json:{error.text}')}"] if error.text else []
    ),
}
