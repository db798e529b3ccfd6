"""``wdsflow serve``: shards over HTTP, of which nothing is written."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from wdsflow.cli.graft import AmbiguousChoice, explained_join
from wdsflow.cli.shared.equal_shards import DivisibleBy, Samples, Shards, Shuffle, Size, explained_apart
from wdsflow.cli.shared.nearest_paths import nearest_ledger
from wdsflow.cli.shared.refusals import explained
from wdsflow.cli.shared.run_arguments import Keep, Ledger, Misuse, NoLedger, Unknown, Where
from wdsflow.cli.shared.serve_report import SIZES, ServeReport
from wdsflow.cli.shared.terminal import fail, progress
from wdsflow.cli.shared.typed_command import MACHINES, MAIN, SAMPLES, Typed, free

if TYPE_CHECKING:
    from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
    from wdsflow.reshaping.reshard.reshard_options import ReshardOptions, ReshardWishes
    from wdsflow.serving.grafted_samples import GraftedSamples
    from wdsflow.serving.resharded_tars import ReshardedTars
    from wdsflow.serving.shard_tars import Tars

_HOST = "127.0.0.1"
_PORT = 8000
_SHOWN = 20  # shards that cannot be served

Urls = Annotated[list[str], typer.Argument(metavar="URL...", help="Shards, as for validate.")]
Host = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address to listen at; 127.0.0.1 by default, which only programs of this machine reach.",
        rich_help_panel=MACHINES,
    ),
]
Port = Annotated[
    int, typer.Option(metavar="PORT", min=0, max=65_535, help="Port; 0 takes a free one.", rich_help_panel=MAIN)
]

Table = Annotated[
    str | None,
    typer.Option(
        "--graft",
        metavar="TABLE",
        help="Add fields from a table, as graft does with --from: .parquet, .csv, .jsonl, or a folder of score.",
        rich_help_panel=MAIN,
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="Join the table on key, json:NAME, sha256 or xxh3 of the image; WHAT=COLUMN if the column has another name.",
        rich_help_panel=MAIN,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=COLUMN",
        help="txt=caption, or json:NAME=COLUMN for a value in the json; repeatable.",
        rich_help_panel=MAIN,
    ),
]
Ambiguous = Annotated[
    AmbiguousChoice,
    typer.Option(
        metavar="HOW",
        help="Samples with several rows, or with the row of another sample: refuse, first, each or drop, as for graft.",
        rich_help_panel=SAMPLES,
    ),
]
DropUnmatched = Annotated[
    bool, typer.Option("--drop-unmatched", help="Leave out samples without a row.", rich_help_panel=SAMPLES)
]


def serve(
    context: typer.Context,
    urls: Urls,
    ledger: Ledger = None,
    where: Where = None,
    keep: Keep = None,
    unknown: Unknown = None,
    table: Table = None,
    on: On = None,
    fields: Set = None,
    ambiguous: Ambiguous = AmbiguousChoice.refuse,
    drop_unmatched: DropUnmatched = False,
    samples: Samples = None,
    size: Size = None,
    shards: Shards = None,
    divisible_by: DivisibleBy = None,
    shuffle: Shuffle = None,
    host: Host = None,
    port: Port = _PORT,
) -> None:
    """Serve shards over HTTP: filtered, grafted, resharded.

    Nothing is written: each request is answered from byte ranges of the shards. With --ledger and --where, a served tar
    has the bytes that cut would write:

    wdsflow serve "in/{000..042}.tar" --ledger scores --where "blur > 100"

    With --samples, --size, --shards, --divisible-by or --shuffle, the served tars are those that reshard would write.

    Ctrl-C ends it, with status 130; status 1 if no sample is left to serve; status 2 if the command is wrong, or no shard
    can be served.
    """
    typed = Typed(context)
    _need_aiohttp()
    from wdsflow.reshaping.reshard.reshard_options import ReshardOptions, checked
    from wdsflow.serving.serve import refuse_taken
    from wdsflow.serving.serve import serve as run
    from wdsflow.serving.shard_tars import ChosenTars, all_compressed

    sizes: ReshardWishes = {
        "samples": samples, "size": size, "shards": shards, "divisible_by": divisible_by, "shuffle": shuffle
    }  # fmt: skip
    with ExitStack() as stack, _address(typed):
        with explained(typed):
            _check_host(host, typed)
            refuse_taken(host or _HOST, port)
            options = checked(sizes)
            inputs = _shards(urls)
            if all_compressed(inputs):
                _unpack_first(len(inputs), typed)
            kept = _kept(inputs, ledger, {"where": where, "keep": keep, "unknown": unknown}, stack)
            tars = _of_ledger(inputs, kept)
            grafted = _grafted(tars, (table, on, fields, ambiguous, drop_unmatched), kept, stack, typed)
            if grafted is not None:
                tars = ChosenTars(tars, grafted)
            resharded = _resharded(tars, options, stack, typed) if options != ReshardOptions() else None
        report = ServeReport(tars, grafted.summary() if grafted is not None else "", typed, host, options, resharded)
        counted = report.counted if report.counts else None
        run(resharded or tars, host or _HOST, port, started=report.started, counted=counted, say=_say)


@contextmanager
def _address(typed: Typed) -> Iterator[None]:
    """Report an address that cannot be listened at; exit with status 2."""
    from wdsflow.serving.serve import CannotListen

    try:
        yield
    except CannotListen as error:
        if error.elsewhere:
            fail(str(error), f"for programs of this machine only: {typed.again(host=None)}")
        fail(str(error), f"on a free port: {typed.again(port=0)}")


def _need_aiohttp() -> None:
    """Exit before any work if the library is missing."""
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        from wdsflow.text.install import install_extras

        fail("serve needs aiohttp, which is not installed", install_extras("serve"))


def _check_host(host: str | None, typed: Typed) -> None:
    if host == "":
        raise Misuse(
            "--host is empty: name an address, or leave it out", f"only this machine: {typed.again(host=None)}"
        )


def _shards(urls: list[str]) -> list[str]:
    """Return the shards. Raises ValueError, such as NoShards."""
    from wdsflow.filtering.kinds import kind_of
    from wdsflow.shards.urls import expand_existing

    found = expand_existing(urls)
    for url in found:
        if url.startswith("pipe:") or not kind_of(url).is_tar:
            what = "the output of a command" if url.startswith("pipe:") else kind_of(url).noun
            raise ValueError(f"{url} is {what}: only tars of which parts can be read are served")
    return found


def _unpack_first(shards: int, typed: Typed) -> NoReturn:
    """Report that all shards are compressed, and how to unpack them; exit with status 2."""
    unpacked = free(Path("unpacked"))
    what = "the only shard is" if shards == 1 else f"all {shards:,} shards are"
    fail(
        f"{what} compressed: only tars of which parts can be read are served",
        f"to unpack: {Typed.spell('repair', *typed.given['urls'], out=unpacked)}",
        "" if "ledger" in typed.given else f"then: {typed.again(urls=[str(unpacked)])}",
    )


def _kept(shards: list[str], ledger: Path | None, flags: dict[str, Any], stack: ExitStack) -> "LedgerSubset | None":
    """Return which samples are served, None for all. Raises ValueError, such as LedgerError."""
    if ledger is None and all(value is None for value in flags.values()):
        return None
    from wdsflow.filtering.recipe.recipe import canonical_recipe
    from wdsflow.filtering.recipe.recipe_file import merged
    from wdsflow.mapping.scratch import scratch

    asked = merged(None, flags)
    canonical_recipe(asked)  # a predicate that means nothing is reported first
    if ledger is None:
        raise NoLedger(nearest_ledger(Path.cwd()))
    from wdsflow.filtering.deciding.ledger_subset import LedgerSubset

    found = LedgerSubset(ledger, asked)
    if found.compares:
        found.compare(shards, stack.enter_context(scratch("serve")))
    return found


def _of_ledger(shards: list[str], kept: "LedgerSubset | None") -> "Tars":
    """Return the shards, or what a ledger keeps of them."""
    from wdsflow.serving.shard_tars import ChosenTars, LedgerSamples, ShardTars

    tars = ShardTars(shards)
    return tars if kept is None else ChosenTars(tars, LedgerSamples(shards, kept))


def _grafted(
    tars: "Tars",
    asked: tuple[str | None, str | None, list[str] | None, AmbiguousChoice, bool],
    kept: "LedgerSubset | None",
    stack: ExitStack,
    typed: Typed,
) -> "GraftedSamples | None":
    """Return samples with fields from a table, None without one. Exits if the join is refused; raises ValueError."""
    table, on, fields, ambiguous, drop_unmatched = asked
    if table is None:
        if on or fields or "ambiguous" in typed.given or drop_unmatched:
            without = typed.again(on=None, fields=None, ambiguous=None, drop_unmatched=None)
            raise Misuse(
                "--on, --set, --ambiguous and --drop-unmatched are about a table: name it with --graft",
                f"without a table: {without}",
            )
        return None
    if not on or not fields:
        such = typed.again(on=on or "key", fields=fields or ["txt=caption"])
        raise Misuse("--graft needs what to join on, --on, and what to set, --set", f"such as: {such}")
    from wdsflow.mapping.scratch import scratch
    from wdsflow.reshaping.graft.join_on import parse_set
    from wdsflow.reshaping.graft.run_graft import GraftOptions, join_of
    from wdsflow.reshaping.graft.table_rows import find_table
    from wdsflow.serving.grafted_samples import GraftedSamples

    with explained_join(typed, typed.given["urls"]):
        files = find_table(table)
        options = GraftOptions(
            files, table, join_of(files, on), tuple(parse_set(fields)), ambiguous.value, drop_unmatched, jobs=2
        )
        where = kept.where if kept is not None else ""
        return GraftedSamples(tars, options, stack.enter_context(scratch("serve")), where)


def _resharded(tars: "Tars", options: "ReshardOptions", stack: ExitStack, typed: Typed) -> "ReshardedTars":
    """Return the samples in tars of other sizes. Exits if not all can be served so; raises ValueError, OSError."""
    from wdsflow.mapping.scratch import scratch
    from wdsflow.serving.resharded_tars import CannotShuffle, NotAllServed, ReshardedTars
    from wdsflow.shards.source.base import SourceError

    urls = typed.given["urls"]
    with explained_apart(typed, urls), progress() as begin:
        try:
            return ReshardedTars(tars, options, stack.enter_context(scratch("serve")), begin)
        except NotAllServed as error:
            for line in error.lines[:_SHOWN]:
                _say(line)
            look = Typed.spell("validate", *urls)
            plain = typed.again(**dict.fromkeys(SIZES)) if len(error.lines) < len(tars.urls) else ""
            others = f"to serve the others, each shard by itself: {plain}" if plain else ""
            fail(str(error), f"to see what is wrong: {look}", _write_instead(typed), others)
        except CannotShuffle as error:
            fail(str(error), _write_instead(typed), f"in the same order: {typed.again(shuffle=None)}")
        except OSError as error:
            if isinstance(error, SourceError):
                raise
            fail(
                f"no temporary file can be written in {tempfile.gettempdir()}: {error.strerror}",
                f"in this folder: TMPDIR=. {typed.again()}",
            )


def _write_instead(typed: Typed) -> str:
    """Return what to do so that reshard writes what cannot be served, "" if that needs more than one command."""
    if not {"ledger", "table"}.isdisjoint(typed.given):
        return ""
    out = free(Path("resharded"))
    return f"to write them instead: {Typed.spell('reshard', *typed.given['urls'], out=out)}{typed.words(*SIZES)}"


def _say(line: str) -> None:
    print(f"wdsflow: cannot be served: {line}", file=sys.stderr, flush=True)
