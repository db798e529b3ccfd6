"""Errors of commands as messages: the reason, and commands that fix it.

Advice is chosen by the class of an error. Its functions yield hints, or end the command with a
message of their own.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .advice_on_outputs import (
    advise_on_existing_file,
    advise_on_other_options,
    refuse_output,
    refuse_permission,
    refuse_run_output,
)
from .advice_on_scores import advise_on_captions, advise_on_json, advise_on_ledger
from .advice_on_shards import advise_on_no_shards
from .advice_on_tables import (
    advise_on_ambiguous_join,
    advise_on_candidates,
    advise_on_column,
    advise_on_contradiction,
    advise_on_join,
    advise_on_mismatch,
    advise_on_pattern_name,
    advise_on_table,
    advise_on_tables_of_folder,
    report_no_match,
)
from .refuse import refuse, refuse_in_lines
from .typed import Typed, unused_path

if TYPE_CHECKING:
    from wdsflow.filtering.ledger.ledger_metadata import LedgerOfOtherJoin, SettledByLedger
    from wdsflow.filtering.passes.pass_engine import TooLittleMemory
    from wdsflow.filtering.run_options import LocalOnly
    from wdsflow.indexing.run_index import PartOfSet
    from wdsflow.table_files.errors import TableError

    from .run_arguments import Misuse

# Commands that report the errors of their work themselves.
EXPLAIN_THEMSELVES = frozenset(
    {"validate", "inspect", "explain", "scores", "report", "doctor", "train"}
)


@contextmanager
def errors_explained(typed: Typed) -> Iterator[None]:
    """Turn errors before and during a run into a message and an exit status."""
    from wdsflow.records.unfinished import resumed_by

    same_command = typed.command_with(restart=None)
    try:
        with resumed_by(same_command):
            yield
    except KeyboardInterrupt:
        if typed.is_resumable:
            print(f"wdsflow: interrupted; to resume: {same_command}", file=sys.stderr)
        raise
    except BrokenPipeError:
        # The output was closed: the run is not at fault.
        raise
    except Exception as error:
        for kind in type(error).__mro__:
            advise = _ADVICE.get(kind.__name__)
            if advise is not None:
                refuse_in_lines(str(error), *advise(error, typed))
        raise


def _no_advice(_: Exception, __: Typed) -> Iterable[str]:
    return ()


def _advise_on_quarantine(_: Exception, typed: Typed) -> Iterable[str]:
    yield typed.command_with(quarantine=unused_path(Path(f"{typed.given['out']}-quarantine")))


def _advise_on_memory(error: "TooLittleMemory", typed: Typed) -> Iterable[str]:
    # Rounded up.
    mebibytes = -(-error.least >> 20)
    yield typed.command_with(memory=f"{mebibytes}MiB")


def _advise_on_misuse(error: "Misuse", typed: Typed) -> Iterable[str]:
    yield from error.hints
    if error.changed:
        yield typed.command_with(**error.changed)


def _advise_on_busy(_: Exception, typed: Typed) -> Iterable[str]:
    yield f"to run at the same time, in another folder: {typed.command_with_other_output()}"


def _advise_on_engine(_: Exception, typed: Typed) -> Iterable[str]:
    action = "on this machine" if "engine" in typed.given else "to resume"
    yield f"finished shards are kept; {action}: {typed.command_with(restart=None, engine=None, address=None)}"


def _advise_on_source(error: Exception, typed: Typed) -> Iterable[str]:
    if not _copies_shards(typed):
        refuse_in_lines(f"cannot read: {error}")
    yield "finished shards are kept, and the same command writes the others again"


def _without_options(error: "SettledByLedger | LocalOnly", typed: Typed) -> Iterable[str]:
    yield typed.command_with(**dict.fromkeys(error.options))


def _advise_on_value(error: ValueError, typed: Typed) -> Iterable[str]:
    if typed.name == "index" and "give a folder" in str(error):
        yield f"elsewhere: {typed.command_with_other_output()}"
    elif _copies_shards(typed):
        yield f"to see the options: wdsflow {typed.name} --help"


def _advise_on_unread(_: Exception, typed: Typed) -> Iterable[str]:
    yield f"see what is wrong: {typed.other_command('validate', *typed.given['urls'])}"


def _advise_on_repeated_keys(_: Exception, typed: Typed) -> Iterable[str]:
    yield f"give them other keys: {typed.command_with(repeated_keys=None)}"


def _advise_on_interleaved(_: Exception, typed: Typed) -> Iterable[str]:
    """Yield the commands that bring the members of samples together, and then reshard."""
    repaired = unused_path(Path("repaired"))
    yield f"bring them together: {typed.other_command('repair', *typed.given['urls'], out=repaired)}"
    yield f"then: {typed.command_with(allow_pipe=None, urls=[str(repaired)])}"


def _advise_on_part_of_set(error: "PartOfSet", typed: Typed) -> Iterable[str]:
    yield f"to index all shards: {typed.command_with(urls=error.folders)}"
    yield f"to list only those given: {typed.command_with(restart=True)}"


def _advise_on_rows(error: "TableError", _: Typed) -> Iterable[str]:
    return error.advice


def _advise_on_other_join(error: "LedgerOfOtherJoin", typed: Typed) -> Iterable[str]:
    if error.joined:
        if typed.name == "filter":
            yield f"to compute the scores of these samples: {typed.command_with(ledger=None)}"
    elif "join" in typed.given:
        names = [name for name in typed.given if name.startswith("join")]
        yield f"if the scores are of the shards as they are: {typed.command_with(**dict.fromkeys(names))}"


def _refuse_unpaired(_: Exception, typed: Typed) -> NoReturn:
    from wdsflow.cli.train import refuse_unpaired

    refuse_unpaired(typed)


def _refuse_unpaired_cache(_: Exception, typed: Typed) -> NoReturn:
    if "cache" in typed.given:
        refuse(
            "--cache needs --cache-size: the limit of all shards in the folder",
            f"such as: {typed.command_with(cache_size='500GiB')}",
        )
    refuse(
        "--cache-size needs --cache: a folder on a disk of this machine",
        f"such as: {typed.command_with(cache='/nvme/wdsflow')}",
    )


def _copies_shards(typed: Typed) -> bool:
    """Return whether a command writes shards without deciding about samples."""
    return typed.is_resumable and not typed.is_filter


# By the names of classes, which are not all imported. The nearest class that an error is of counts.
_ADVICE: dict[str, Callable[[Any, Typed], Iterable[str]]] = {
    "NoShards": advise_on_no_shards,
    "UnknownReader": _no_advice,
    "NoCaptions": advise_on_captions,
    "NoJsonValue": advise_on_json,
    "LedgerOfOtherJoin": _advise_on_other_join,
    "LedgerError": advise_on_ledger,
    "Differs": advise_on_other_options,
    "OtherOptions": advise_on_other_options,
    "QuarantineTaken": _advise_on_quarantine,
    "FileExistsError": advise_on_existing_file,
    "TooLittleMemory": _advise_on_memory,
    "Misuse": _advise_on_misuse,
    "Busy": _advise_on_busy,
    # The same command would fail again.
    "BrokenRunError": _no_advice,
    "EngineError": _advise_on_engine,
    "SourceError": _advise_on_source,
    "StoreError": refuse_run_output,
    "PermissionError": refuse_permission,
    "OSError": refuse_output,
    "SettledByLedger": _without_options,
    "LocalOnly": _without_options,
    "ValueError": _advise_on_value,
    "NothingRead": _advise_on_unread,
    "RepeatedKeys": _advise_on_repeated_keys,
    "PartOfSet": _advise_on_part_of_set,
    "UnpairedSubset": _refuse_unpaired,
    "UnpairedCache": _refuse_unpaired_cache,
    "InterleavedMembers": _advise_on_interleaved,
    "NoMatch": report_no_match,
    "AmbiguousJoin": advise_on_ambiguous_join,
    "JoinMismatch": advise_on_mismatch,
    "ContradictedJoin": advise_on_contradiction,
    "NoColumn": advise_on_column,
    "NoTable": advise_on_table,
    "WhichColumn": advise_on_candidates,
    "HoldsTables": advise_on_tables_of_folder,
    "PatternName": advise_on_pattern_name,
    "TableError": _advise_on_rows,
    "WrongJoin": advise_on_join,
}
