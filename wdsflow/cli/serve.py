"""``wdsflow serve``: shards over HTTP, of which nothing is written."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from wdsflow.cli.graft import AmbiguousChoice, explained_join
from wdsflow.cli.shared.help_panels import MACHINES, MAIN, SAMPLES
from wdsflow.cli.shared.nearest_paths import nearest_ledger
from wdsflow.cli.shared.refusals import explained
from wdsflow.cli.shared.run_arguments import Keep, Ledger, Misuse, NoLedger, Unknown, Where
from wdsflow.cli.shared.terminal import fail
from wdsflow.cli.shared.typed_command import Typed, free
from wdsflow.text.shell import quote
from wdsflow.text.words import how_many

if TYPE_CHECKING:
    from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
    from wdsflow.serving.chosen_samples import LedgerSamples
    from wdsflow.serving.grafted_samples import GraftedSamples
    from wdsflow.serving.shard_server import Counts

_HOST = "127.0.0.1"
_PORT = 8000

Urls = Annotated[list[str], typer.Argument(metavar="URL...", help="Shards, as for validate.")]
Host = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address to listen at; 127.0.0.1 by default, which only programs of this machine reach.",
        rich_help_panel=MACHINES,
        show_default=False,
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
        show_default=False,
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="Join the table on key, json:NAME, sha256 or xxh3 of the image; WHAT=COLUMN if the column has another name.",
        rich_help_panel=MAIN,
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=COLUMN",
        help="txt=caption, or json:NAME=COLUMN for a value in the json; repeatable.",
        rich_help_panel=MAIN,
        show_default=False,
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
    host: Host = None,
    port: Port = _PORT,
) -> None:
    """Serve shards over HTTP, filtered or with new captions.

    Nothing is written: each request is answered from byte ranges of the shards. With --ledger and --where, a served tar
    has the bytes that cut would write:

    wdsflow serve "in/{000..042}.tar" --ledger scores --where "blur > 100"

    Ctrl-C ends it, with status 130; status 1 if no sample is left to serve; status 2 if the command is wrong, or no shard
    can be served.
    """
    typed = Typed(context)
    _need_aiohttp()
    from wdsflow.serving.serve import CannotListen, pattern
    from wdsflow.serving.serve import serve as run
    from wdsflow.serving.shard_server import is_loopback
    from wdsflow.serving.shard_views import ShardViews, all_compressed, is_local

    with ExitStack() as stack:
        with explained(typed):
            _check_host(host, typed)
            shards = _shards(urls)
            if all_compressed(shards):
                _unpack_first(len(shards), typed)
            kept = _kept(shards, ledger, {"where": where, "keep": keep, "unknown": unknown}, stack)
            grafted = _grafted(shards, (table, on, fields, ambiguous, drop_unmatched), kept, stack, typed)
            views = ShardViews(shards, grafted or _of_ledger(shards, kept))

        def started(url: str) -> None:
            if host is not None and not is_loopback(host):
                print(f"wdsflow: everyone who reaches {host} can read these shards", file=sys.stderr)
            print(f"serving {how_many(len(shards), 'shard')} at {url}", flush=True)
            print(f"  {pattern(url, range(len(shards)))}", flush=True)
            if not counts:
                _advise(pattern(url, range(len(shards))), None)

        def counted(url: str, found: "Counts") -> None:
            _report(url, shards, found, grafted.summary() if grafted is not None else "", typed)

        counts = views.filters or all(map(is_local, shards))
        try:
            run(views, host or _HOST, port, started=started, counted=counted if counts else None, say=_say)
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
    from wdsflow.filtering.jsonl.jsonl_names import is_lines
    from wdsflow.shards.urls import expand_existing

    found = expand_existing(urls)
    for url in found:
        if url.startswith("pipe:") or is_lines(url):
            what = "a file of JSON lines" if is_lines(url) else "the output of a command"
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
    from wdsflow.filtering.recipe.canonical_recipe import canonical_recipe
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


def _of_ledger(shards: list[str], kept: "LedgerSubset | None") -> "LedgerSamples | None":
    if kept is None:
        return None
    from wdsflow.serving.chosen_samples import LedgerSamples

    return LedgerSamples(shards, kept)


def _grafted(
    shards: list[str],
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
        return GraftedSamples(shards, options, stack.enter_context(scratch("serve")), kept)


def _report(url: str, shards: list[str], counts: "Counts", joined: str, typed: Typed) -> None:
    """Print what becomes of the samples, and how to train on those that are served. Exits if there are none."""
    from wdsflow.filtering.folder.shard_record import ShardFailure
    from wdsflow.filtering.run_report import RunReport
    from wdsflow.serving.serve import pattern

    report = RunReport(Path(), dry_run=True, asked=len(shards))
    for number, found in counts.items():
        if isinstance(found, str):
            report.failures.append(ShardFailure(number, shards[number], "", found))
        else:
            report.records.append(found)
    report.check()
    for line in report.lines():
        if not line.startswith("not done: "):  # said before, when they were counted
            print(line)
    if joined:
        print(joined)
    served = [record.shard for record in report.records if record.kept]
    if not served:
        sys.stdout.flush()
        _nothing_left(len(report.failures), len(shards), typed)
    if report.failures:
        print(f"{how_many(len(report.failures), 'shard')} of {len(shards)} cannot be served: see above", flush=True)
    else:
        _advise(pattern(url, served), report.total("counted"))


def _nothing_left(failed: int, shards: int, typed: Typed) -> NoReturn:
    """Report that no sample can be served; exit with status 1, or 2 if that is because shards cannot be served."""
    look = f"to see what is wrong: {Typed.spell('validate', *typed.given['urls'])}"
    if failed:
        fail(
            f"nothing is served: {how_many(failed, 'shard')} of {shards:,} cannot be, and no sample of others is kept"
            if failed < shards
            else "nothing is served: no shard can be",
            look,
        )
    everything = typed.again(ledger=None, where=None, keep=None, unknown=None, drop_unmatched=None)
    chosen = not {"ledger", "drop_unmatched"}.isdisjoint(typed.given)
    print("wdsflow: nothing is served: no sample is left", file=sys.stderr)
    print(f"  {f'to serve all samples: {everything}' if chosen else look}", file=sys.stderr)
    raise typer.Exit(1)


def _advise(data: str, samples: int | None) -> None:
    """Print the commands that train on what is served."""
    print("\nWhat to do")
    print(f"  1. train with wdsflow's feed\n       wdsflow train -- --train-data {quote(data)}")
    if samples is not None:
        words = f"--train-data {quote(data)} --train-num-samples {samples} --dataset-type webdataset"
        print(f"  2. or with OpenCLIP's own loader\n       python -m open_clip_train.main {words}")
    sys.stdout.flush()


def _say(line: str) -> None:
    print(f"wdsflow: cannot be served: {line}", file=sys.stderr, flush=True)
