"""Messages of ``filter``, ``score`` and ``cut`` if they refuse or fail: what happened, and commands that help."""

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import typer

from wdsflow.text.shell import escape

from .nearest_paths import existing, nearest_ledger
from .run_arguments import Misuse, NoLedger
from .terminal import WRONG_USE, about_shards, is_misplaced
from .typed_command import Typed, free

_EXAMPLE = "min_side >= 200"  # a predicate for any shards


def refuse(message: str, *hints: str) -> NoReturn:
    """Report what is wrong, then what to do, one line each; exit with status 2."""
    print("wdsflow: " + "\n".join(escape(line, 2_000) for line in message.split("\n")), file=sys.stderr)
    for hint in hints:
        if hint:
            print(f"  {escape(hint, 100_000)}", file=sys.stderr)
    raise typer.Exit(WRONG_USE)


@contextlib.contextmanager
def explained(typed: Typed) -> Iterator[None]:
    """Turn errors before and during a run into a message and an exit status."""
    from wdsflow.engines.base import EngineError
    from wdsflow.records.refusals import Busy
    from wdsflow.records.unfinished import resumed_by
    from wdsflow.shards.source.base import SourceError

    try:
        with resumed_by(typed.again(restart=None)):
            yield
    except (ValueError, FileExistsError) as error:
        refuse(str(error), *_advice(error, typed))
    except Busy as error:
        refuse(str(error), f"to run at the same time, in another folder: {_elsewhere(typed)}")
    except EngineError as error:
        refuse(str(error), *_after_engine(error, typed))
    except KeyboardInterrupt:
        if typed.name != "serve":  # which leaves nothing to be resumed
            print(f"wdsflow: interrupted; to resume: {typed.again(restart=None)}", file=sys.stderr)
        raise
    except BrokenPipeError:  # nobody reads the output: not a fault of the run
        raise
    except SourceError as error:
        refuse(f"cannot read: {error}")
    except OSError as error:
        refuse(*_about_output(error, typed))


def _advice(error: Exception, typed: Typed) -> Iterator[str]:
    """Yield commands that help."""
    from wdsflow.filtering.json_place import NoCaptions, NoJsonValue
    from wdsflow.filtering.ledger.ledger_row import LedgerError, MissingScore
    from wdsflow.filtering.run_folder import QuarantineTaken
    from wdsflow.filtering.run_pass import TooLittleMemory
    from wdsflow.filtering.run_record import Differs
    from wdsflow.shards.urls import NoShards

    if isinstance(error, NoShards):
        yield from about_shards(error, typed)
    elif isinstance(error, NoCaptions):
        yield from _about_captions(error, typed)
    elif isinstance(error, NoJsonValue):
        yield from _about_json(error, typed)
    elif isinstance(error, MissingScore):
        yield from rescore(typed, error.call)
    elif isinstance(error, LedgerError):
        yield from _about_ledger(typed)
    elif isinstance(error, Differs):
        if not typed.given.get("shard_count"):
            yield f"to replace it: {typed.again(restart=True)}"
        yield f"to keep it: {_elsewhere(typed)}"
    elif isinstance(error, QuarantineTaken):
        yield typed.again(quarantine=free(Path(f"{typed.given['out']}-quarantine")))
    elif isinstance(error, FileExistsError) and "out" in typed.given:
        yield f"elsewhere: {_elsewhere(typed)}"
    elif isinstance(error, TooLittleMemory):
        yield typed.again(memory=f"{-(-error.least >> 20)}MiB")
    elif isinstance(error, Misuse):
        yield error.hint
        if error.changed:
            yield typed.again(**error.changed)
        elif isinstance(error, NoLedger):
            yield from rescore(typed)
    elif typed.name == "serve" and type(error) is ValueError:
        yield "to see the options: wdsflow serve --help"


def _elsewhere(typed: Typed, **changed: Any) -> str:
    return typed.again(out=free(Path(typed.given["out"])), restart=None, **changed)


def _about_captions(error: Any, typed: Typed) -> Iterator[str]:
    from wdsflow.stages.scores.sample_fields import CAPTIONS

    if error.found is None:
        return
    yield str(error.found)
    place, asked = error.found.place, typed.given
    texts = {name: asked[name] for name in ("where", "keep", "scores") if name in asked}
    changed: dict[str, Any] = {name: _replaced(text, error.place, place) for name, text in texts.items()}
    for_all = changed == texts or asked.get("captions", CAPTIONS) == error.place
    if for_all:  # otherwise only the settings of these scores name the place
        changed["captions"] = place
    yield typed.again(**changed)


def _about_json(error: Any, typed: Typed) -> Iterator[str]:
    """Yield the name that may be meant, and the command with it if its name was typed."""
    yield from _nearest_json(error, typed)
    if not error.every and isinstance(where := typed.given.get("where"), str):
        call = f"{error.score.name}({error.score.path!r})"
        yield f"if others have it, drop those without: {typed.again(where=f'{call} is not null and ({where})')}"


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
    if changed != texts and old[0] == new[0]:  # otherwise a text would be compared as a number
        yield typed.again(**changed)


def _with_name(text: str, old: tuple[str, str], new: tuple[str, str]) -> str:
    """Return a predicate with another (score, name) of a value in json."""
    known = rf"""\b{old[0]}(\(\s*(?:path\s*=\s*)?)(["']){re.escape(old[1])}\2"""
    return re.sub(known, lambda found: f"{new[0]}{found[1]}{found[2]}{new[1]}{found[2]}", text)


def _replaced(value: Any, old: str, new: str) -> Any:
    """Return a predicate, or scores, with another place for captions in the settings of scores."""
    known = rf"""(?<=caption=)(["']){re.escape(old)}\1"""
    return _each(value, lambda text: re.sub(known, lambda found: f"{found[1]}{new}{found[1]}", text))


def _each(value: Any, change: Callable[[str], str]) -> Any:
    return change(value) if isinstance(value, str) else [change(text) for text in value]


def _about_ledger(typed: Typed) -> Iterator[str]:
    asked = Path(typed.given.get("ledger") or ".")
    near = nearest_ledger(asked)
    if near is not None and near != asked and "ledger" in typed.given:
        yield f"with the ledgers in {near}: {typed.again(ledger=near)}"
    elif typed.name in ("cut", "serve"):
        yield from rescore(typed)


def rescore(typed: Typed, lacks: str = "") -> Iterator[str]:
    """Yield the commands that compute the scores that a cut needs, as its ledger was made, and then cut."""
    from wdsflow.filtering.deciding.ledger_subset import needed_scores, scores_to_add
    from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe

    old, where = typed.given.get("ledger"), typed.given.get("where")
    keep = tuple(typed.given.get("keep") or ())
    if where is None and not keep and old is not None:
        return
    where = where or (None if keep else _EXAMPLE)
    recipe = canonical_recipe(Recipe(where=where or "", keep=keep))
    urls, new, run_file = typed.given["urls"], free(Path(old or "scores")), Path(old or "") / "_wdsflow" / "run.json"
    if old is not None and (added := scores_to_add(urls, Path(old), recipe, reads=typed.name == "cut")) is not None:
        (urls, calls), new = added, Path(old)
        score = Typed.spell("score", *urls, out=new, scores=calls)
    else:
        calls = needed_scores(recipe)
        score = Typed.spell("score", *urls, out=new, scores=calls, recipe=run_file if run_file.is_file() else None)
    yield f"to compute {lacks or 'what it needs'}: {score}"
    yield f"then: {typed.again(ledger=new, where=where)}"


def _after_engine(error: Exception, typed: Typed) -> Iterator[str]:
    from wdsflow.filtering.deciding.outcomes import BrokenRunError

    if isinstance(error, BrokenRunError):
        return  # the same command would fail again
    there = "on this machine" if "engine" in typed.given else "to resume"
    yield f"finished shards are kept; {there}: {typed.again(restart=None, engine=None, address=None)}"


def _about_output(error: OSError, typed: Typed) -> tuple[str, str]:
    """Return the file that could not be written, and what helps."""
    path = (
        f": {error.filename}" if error.filename is not None and str(error.filename) not in str(error.strerror) else ""
    )
    message = f"cannot write: {error.strerror or error}{path}"
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
    if len(left) > 5:
        listed = out / "_wdsflow" / "readable.txt"
        listed.write_text("".join(f"{url}\n" for url in left), encoding="utf-8", errors="surrogateescape")
        left = [f"@{listed}"]
    return typed.again(urls=left, restart=True)
