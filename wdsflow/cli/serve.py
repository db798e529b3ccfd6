"""``wdsflow serve``: shards over HTTP, of which nothing is written."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from wdsflow.cli.graft import AmbiguousChoice, explained_join
from wdsflow.cli.shared.equal_shards import DivisibleBy, Samples, Shards, Shuffle, Size, explained_apart
from wdsflow.cli.shared.help_panels import MACHINES, MAIN, SAMPLES
from wdsflow.cli.shared.nearest_paths import nearest_ledger
from wdsflow.cli.shared.refusals import explained
from wdsflow.cli.shared.run_arguments import Keep, Ledger, Misuse, NoLedger, Unknown, Where
from wdsflow.cli.shared.terminal import fail, progress
from wdsflow.cli.shared.typed_command import Typed, free
from wdsflow.text.shell import quote
from wdsflow.text.words import how_many

if TYPE_CHECKING:
    from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
    from wdsflow.filtering.run_report import RunReport
    from wdsflow.reshaping.reshard.reshard_options import ReshardOptions, ReshardWishes
    from wdsflow.serving.chosen_samples import LedgerSamples
    from wdsflow.serving.grafted_samples import GraftedSamples
    from wdsflow.serving.resharded_views import ReshardedViews
    from wdsflow.serving.shard_server import Counts
    from wdsflow.serving.shard_views import ShardViews

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

    With --samples, --size, --shards, --divisible-by or --shuffle, they have those that reshard would write.

    Ctrl-C ends it, with status 130; status 1 if no sample is left to serve; status 2 if the command is wrong, or no shard
    can be served.
    """
    typed = Typed(context)
    _need_aiohttp()
    from wdsflow.reshaping.reshard.reshard_options import ReshardOptions, checked
    from wdsflow.serving.shard_views import ShardViews, all_compressed

    sizes: ReshardWishes = {
        "samples": samples, "size": size, "shards": shards, "divisible_by": divisible_by, "shuffle": shuffle
    }  # fmt: skip
    with ExitStack() as stack:
        with explained(typed):
            _check_host(host, typed)
            options = checked(sizes)
            inputs = _shards(urls)
            if all_compressed(inputs):
                _unpack_first(len(inputs), typed)
            kept = _kept(inputs, ledger, {"where": where, "keep": keep, "unknown": unknown}, stack)
            grafted = _grafted(inputs, (table, on, fields, ambiguous, drop_unmatched), kept, stack, typed)
            views = ShardViews(inputs, grafted or _of_ledger(inputs, kept))
            resharded = _resharded(views, options, stack, typed) if options != ReshardOptions() else None
        teller = _Teller(views, grafted.summary() if grafted is not None else "", typed, host, options, resharded)
        _run(teller, host, port)


@dataclass
class _Teller:
    """Prints what is served, and how to train on it."""

    views: "ShardViews"  # of the inputs
    joined: str  # what became of the samples in a join
    typed: Typed
    host: str | None
    options: "ReshardOptions"
    resharded: "ReshardedViews | None"

    def __post_init__(self) -> None:
        if self.resharded is not None and not self.resharded.urls:
            self._account(dict(enumerate(self.resharded.records)))  # which ends the run

    @property
    def counts(self) -> bool:
        """Whether samples are counted when requests are answered already."""
        from wdsflow.serving.shard_views import is_local

        return self.resharded is None and (self.views.filters or all(map(is_local, self.views.urls)))

    def started(self, url: str) -> None:
        """Tell that requests are answered."""
        from wdsflow.reshaping.reshard.epoch_evenness import evenness
        from wdsflow.reshaping.reshard.reshard_options import USUAL_GRID
        from wdsflow.serving.serve import pattern
        from wdsflow.serving.shard_server import is_loopback

        inputs, anew = len(self.views.urls), self.resharded
        tars = inputs if anew is None else len(anew.urls)
        if self.host is not None and not is_loopback(self.host):
            print(f"wdsflow: everyone who reaches {self.host} can read these shards", file=sys.stderr)
        of = "" if anew is None else f" of {how_many(inputs, 'input')}"
        print(f"serving {how_many(tars, 'shard')}{of} at {url}", flush=True)
        print(f"  {pattern(url, range(tars))}", flush=True)
        if anew is not None:
            self._account(dict(enumerate(anew.records)))
            print(evenness(anew.sizes, self.options.divisible_by or USUAL_GRID))
        if not self.counts:
            _advise(pattern(url, range(tars)), None if anew is None else sum(anew.sizes))

    def counted(self, url: str, found: "Counts") -> None:
        """Tell what becomes of the samples of each shard."""
        from wdsflow.serving.serve import pattern

        report = self._account(found)
        if report.failures:
            failed = how_many(len(report.failures), "shard")
            print(f"{failed} of {len(self.views.urls)} cannot be served: see above", flush=True)
        else:
            _advise(pattern(url, (each.shard for each in report.records if each.kept)), report.total("counted"))

    def _account(self, counts: "Counts") -> "RunReport":
        """Print what becomes of the samples of shards. Exits if there are none."""
        from wdsflow.filtering.folder.shard_record import ShardFailure
        from wdsflow.filtering.run_report import RunReport

        shards = self.views.urls
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
        if self.joined:
            print(self.joined)
        if not any(record.kept for record in report.records):
            sys.stdout.flush()
            _nothing_left(len(report.failures), len(shards), self.typed)
        return report


def _run(teller: _Teller, host: str | None, port: int) -> None:
    from wdsflow.serving.serve import CannotListen, serve

    tars, counted = teller.resharded or teller.views, teller.counted if teller.counts else None
    try:
        serve(tars, host or _HOST, port, started=teller.started, counted=counted, say=_say)
    except CannotListen as error:
        if error.elsewhere:
            fail(str(error), f"for programs of this machine only: {teller.typed.again(host=None)}")
        fail(str(error), f"on a free port: {teller.typed.again(port=0)}")


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


def _resharded(views: "ShardViews", options: "ReshardOptions", stack: ExitStack, typed: Typed) -> "ReshardedViews":
    """Return the samples in tars of other sizes. Exits if not all can be served so; raises ValueError, OSError."""
    from wdsflow.mapping.scratch import scratch
    from wdsflow.serving.resharded_views import NotAllServed, ReshardedViews

    with explained_apart(typed, typed.given["urls"]), progress() as begin:
        try:
            return ReshardedViews(views, options, stack.enter_context(scratch("serve")), begin)
        except NotAllServed as error:
            for line in error.lines[:_SHOWN]:
                _say(line)
            plain = typed.again(**dict.fromkeys(("samples", "size", "shards", "divisible_by", "shuffle")))
            look = Typed.spell("validate", *typed.given["urls"])
            fail(str(error), f"to see what is wrong: {look}", f"to serve the others, each shard by itself: {plain}")


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
