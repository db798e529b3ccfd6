"""``wdsflow serve``: shards over HTTP, without writing them."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from wdsflow.cli.shared.command_line import Given, Only
from wdsflow.cli.shared.nearest_paths import nearest_ledger
from wdsflow.cli.shared.run_arguments import Ledger, Misuse, NoLedger, Shards
from wdsflow.cli.shared.terminal import fail, progress
from wdsflow.cli.shared.typed import Typed, free
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.reshaping.options import Ambiguous, GraftRequest
from wdsflow.reshaping.reshard.reshard_options import ShardSizes
from wdsflow.text.options import MACHINES, SAMPLES, option
from wdsflow.text.shell import quote
from wdsflow.text.words import how_many

if TYPE_CHECKING:
    from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
    from wdsflow.filtering.run_report import RunReport
    from wdsflow.reshaping.reshard.reshard_options import ReshardOptions
    from wdsflow.serving.grafted_samples import GraftedSamples
    from wdsflow.serving.resharded_tars import ReshardedTars
    from wdsflow.serving.shard_server import Counts
    from wdsflow.serving.shard_tars import Tars

_HOST = "127.0.0.1"
_SHOWN = 20  # shards that cannot be served


@dataclass(frozen=True)
class Join:
    """A table whose columns are added to samples."""

    table: str | None = option(
        None,
        "Add fields from a table, as graft does with --from: .parquet, .csv, .jsonl, or a folder of score.",
        "--graft",
        metavar="TABLE",
    )
    on: str | None = option(
        None,
        "Join the table on key, json:NAME, sha256 or xxh3 of the image; WHAT=COLUMN if the column has another name.",
        metavar="WHAT",
    )
    fields: tuple[str, ...] = option(
        (), "txt=caption, or json:NAME=COLUMN for a value in the json; repeatable.", "--set", metavar="FIELD=COLUMN"
    )
    ambiguous: Ambiguous = option(
        "refuse",
        "Samples with several rows, or with the row of another sample: refuse, first, each or drop, as for graft.",
        metavar="HOW",
        panel=SAMPLES,
    )
    drop_unmatched: bool = option(False, "Leave out samples without a row.", panel=SAMPLES)


@dataclass(frozen=True)
class Address:
    """The address of the server."""

    host: str | None = option(
        None,
        "Address to listen at; 127.0.0.1 by default, which only programs of this machine reach.",
        metavar="ADDRESS",
        panel=MACHINES,
    )
    port: int = option(8000, "Port; 0 takes a free one.", metavar="PORT", least=0, most=65_535)


def serve(
    typed: Typed,
    given: Shards,
    scores: Ledger,
    flags: Annotated[Given[Recipe], Only("where", "keep", "unknown")],
    join: Join,
    sizes: ShardSizes,
    address: Address,
) -> None:
    """Serve shards over HTTP: filtered, grafted, resharded.

    Nothing is written: each request is answered from byte ranges of the shards. With --ledger and --where, a served tar
    has the bytes that cut would write:

    wdsflow serve "in/{000..042}.tar" --ledger scores --where "blur > 100"

    With --samples, --size, --shards, --divisible-by or --shuffle, the served tars are those that reshard would write.

    Ctrl-C ends it, with status 130; status 1 if no sample is left to serve; status 2 if the command is wrong, or no shard
    can be served.
    """
    _need_aiohttp()
    from wdsflow.reshaping.reshard.reshard_options import ReshardOptions, checked
    from wdsflow.serving.serve import refuse_taken
    from wdsflow.serving.serve import serve as run
    from wdsflow.serving.shard_tars import ChosenTars, LedgerSamples, ShardTars, all_compressed

    host = _HOST if address.host is None else address.host
    if not host:
        hint = f"only this machine: {typed.again(host=None)}"
        raise Misuse("--host is empty: name an address, or leave it out", hint)
    with ExitStack() as stack:
        refuse_taken(host, address.port)
        options = checked(sizes)
        inputs = _shards(given.urls)
        if all_compressed(inputs):
            _unpack_first(len(inputs), typed)
        kept = _kept(inputs, scores.ledger, flags, stack)
        tars: Tars = ShardTars(inputs)
        if kept is not None:
            tars = ChosenTars(tars, LedgerSamples(inputs, kept))
        grafted = _grafted(tars, join, kept, stack, typed)
        if grafted is not None:
            tars = ChosenTars(tars, grafted)
        resharded = _resharded(tars, options, stack, typed) if options != ReshardOptions() else None
        joined = grafted.summary() if grafted is not None else ""
        report = ServeReport(tars, joined, typed, address.host, options, resharded)
        counted = report.counted if report.counts else None
        run(resharded or tars, host, address.port, started=report.started, counted=counted, say=_say)


def _need_aiohttp() -> None:
    """Exit before any work if the library is missing."""
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        from wdsflow.text.install import install_extras

        fail("serve needs aiohttp, which is not installed", install_extras("serve"))


def _shards(urls: list[str]) -> list[str]:
    """Return the shards. Raises ValueError, such as NoShards."""
    from wdsflow.shards.urls import expand_existing

    found = expand_existing(urls)
    for url in found:
        if url.startswith("pipe:"):
            raise ValueError(f"{url} is the output of a command: only tars of which parts can be read are served")
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


def _kept(
    shards: list[str], ledger: Path | None, flags: Mapping[str, object], stack: ExitStack
) -> "LedgerSubset | None":
    """Return the samples to serve, None for all. Raises ValueError, such as LedgerError."""
    if ledger is None and not flags:
        return None
    from wdsflow.filtering.recipe.recipe import canonical_recipe
    from wdsflow.filtering.recipe.recipe_file import merged
    from wdsflow.shards.scratch import scratch

    recipe = merged(None, flags)
    canonical_recipe(recipe)  # an invalid predicate is reported first
    if ledger is None:
        raise NoLedger(nearest_ledger(Path.cwd()))
    from wdsflow.filtering.deciding.ledger_subset import LedgerSubset

    found = LedgerSubset(ledger, recipe)
    if found.compares:
        found.compare(shards, stack.enter_context(scratch("serve")))
    return found


def _grafted(
    tars: "Tars", join: Join, kept: "LedgerSubset | None", stack: ExitStack, typed: Typed
) -> "GraftedSamples | None":
    """Return samples with fields from a table, None if no table is given. Raises ValueError."""
    if join.table is None:
        if join.on or join.fields or "ambiguous" in typed.given or join.drop_unmatched:
            without = typed.again(on=None, fields=None, ambiguous=None, drop_unmatched=None)
            raise Misuse(
                "--on, --set, --ambiguous and --drop-unmatched are about a table: name it with --graft",
                f"without a table: {without}",
            )
        return None
    if not join.on or not join.fields:
        such = typed.again(on=join.on or "key", fields=join.fields or ["txt=caption"])
        raise Misuse("--graft needs what to join on, --on, and what to set, --set", f"such as: {such}")
    from wdsflow.reshaping.graft.run_graft import options_of
    from wdsflow.serving.grafted_samples import GraftedSamples
    from wdsflow.shards.scratch import scratch

    options = options_of(GraftRequest(**vars(join)))
    return GraftedSamples(tars, options, stack.enter_context(scratch("serve")), kept.where if kept is not None else "")


def _resharded(tars: "Tars", options: "ReshardOptions", stack: ExitStack, typed: Typed) -> "ReshardedTars":
    """Return the samples in tars of other sizes. Exits if some cannot be served; raises ValueError, OSError."""
    from wdsflow.serving.resharded_tars import CannotShuffle, NotAllServed, ReshardedTars
    from wdsflow.shards.scratch import scratch
    from wdsflow.shards.source.base import SourceError

    urls = typed.given["urls"]
    with progress() as begin:
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
    """Return the reshard command for shards that cannot be served, "" if one command is not enough."""
    if not {"ledger", "table"}.isdisjoint(typed.given):
        return ""
    out = free(Path("resharded"))
    return f"to write them instead: {Typed.spell('reshard', *typed.given['urls'], out=out)}{typed.words(*SIZES)}"


def _say(line: str) -> None:
    print(f"wdsflow: cannot be served: {line}", file=sys.stderr, flush=True)


SIZES = ("samples", "size", "shards", "divisible_by", "shuffle")  # the parameters for tars of other sizes


@dataclass
class ServeReport:
    """Prints the served data, and how to train on it."""

    tars: "Tars"  # the served part of each input
    joined: str  # the outcome of a join
    typed: Typed
    host: str | None
    options: "ReshardOptions"
    resharded: "ReshardedTars | None"

    def __post_init__(self) -> None:
        if self.resharded is not None and not self.resharded.urls:
            self._account(dict(enumerate(self.resharded.records)))  # exits

    @property
    def counts(self) -> bool:
        """Whether samples are counted while requests are already answered."""
        from wdsflow.shards.source.base import local_file

        return self.resharded is None and (self.tars.filters or all(map(local_file, self.tars.urls)))

    def started(self, url: str) -> None:
        """Report that the server answers requests."""
        from wdsflow.reshaping.reshard.reshard_options import USUAL_GRID
        from wdsflow.reshaping.reshard.reshard_report import evenness
        from wdsflow.serving.serve import pattern
        from wdsflow.serving.shard_server import is_loopback

        inputs, resharded = len(self.tars.urls), self.resharded
        tars = inputs if resharded is None else len(resharded.urls)
        if self.host is not None and not is_loopback(self.host):
            print(f"wdsflow: everyone who reaches {self.host} can read these shards", file=sys.stderr)
        of = "" if resharded is None else f" of {how_many(inputs, 'input')}"
        print(f"serving {how_many(tars, 'shard')}{of} at {url}", flush=True)
        print(f"  {pattern(url, range(tars))}", flush=True)
        if resharded is not None:
            self._account(dict(enumerate(resharded.records)))
            if resharded.renamed:
                print(
                    f"renamed: {how_many(resharded.renamed, 'sample')} whose key is in the shard already get a number"
                )
            print(evenness(resharded.sizes, self.options.divisible_by or USUAL_GRID))
            if resharded.lost:
                repaired = Typed.spell("repair", *self.typed.given["urls"], out=free(Path("repaired")))
                print(f"to bring back what can be read: {repaired}")
        if not self.counts:
            _advise(pattern(url, range(tars)), None if resharded is None else resharded.sizes)

    def counted(self, url: str, found: "Counts") -> None:
        """Report the outcomes of the samples of each shard."""
        from wdsflow.serving.serve import pattern

        report = self._account(found)
        if report.failures:
            failed = how_many(len(report.failures), "shard")
            print(f"{failed} of {len(self.tars.urls)} cannot be served: see above", flush=True)
        else:
            kept = [each for each in report.records if each.kept]
            _advise(pattern(url, (each.shard for each in kept)), [each.counted for each in kept])

    def _account(self, counts: "Counts") -> "RunReport":
        """Print the outcomes of the samples of shards. Exits if there are none."""
        from wdsflow.filtering.run_folder import ShardFailure
        from wdsflow.filtering.run_report import RunReport

        shards = self.tars.urls
        report = RunReport(Path(), dry_run=True, asked=len(shards))
        for number, found in counts.items():
            if isinstance(found, str):
                report.failures.append(ShardFailure(number, shards[number], "", found))
            else:
                report.records.append(found)
        report.check()
        for line in report.lines():
            if not line.startswith("not done: "):  # printed earlier, when they were counted
                print(line)
        if self.joined:
            print(self.joined)
        if not any(record.kept for record in report.records):
            sys.stdout.flush()
            _nothing_left(len(report.failures), len(shards), self.typed)
        return report


def _nothing_left(failed: int, shards: int, typed: Typed) -> NoReturn:
    """Report that no sample can be served; exit with status 1, or 2 if the reason is shards that cannot be served."""
    look = f"to see what is wrong: {Typed.spell('validate', *typed.given['urls'])}"
    if failed:
        fail(
            f"nothing is served: {how_many(failed, 'shard')} of {shards:,} cannot be, and no sample of others is kept"
            if failed < shards
            else "nothing is served: no shard can be",
            look,
        )
    everything = typed.again(**dict.fromkeys(("ledger", "where", "keep", "unknown", "drop_unmatched", *SIZES)))
    chosen = not {"ledger", "drop_unmatched"}.isdisjoint(typed.given)
    print("wdsflow: nothing is served: no sample is left", file=sys.stderr)
    print(f"  {f'to serve all samples: {everything}' if chosen else look}", file=sys.stderr)
    sys.exit(1)


def _advise(data: str, samples: Sequence[int] | None) -> None:
    """Print the commands that train on the served data; ``samples`` of each shard, None if they are not counted."""
    if samples is not None and not any(samples):
        return
    words = f"--train-data {quote(data)}{'' if samples is None else batches_for_all(samples)}"
    print("\nWhat to do")
    print(f"  1. train with wdsflow's feed\n       wdsflow train -- {words}")
    if samples is not None:
        words += f" --train-num-samples {sum(samples)} --dataset-type webdataset"
        print(f"  2. or with OpenCLIP's own loader\n       python -m open_clip_train.main {words}")
    sys.stdout.flush()


def batches_for_all(samples: Sequence[int]) -> str:
    """Return the options with which each worker fills a batch in any order of these shards; "" if the defaults do.

    >>> batches_for_all([100] * 4), batches_for_all([40] * 4), batches_for_all([7, 21])
    ('', ' --workers 2', ' --workers 1 --batch-size 28')
    """
    fewest, usual = sorted(samples), Arguments()
    for workers in range(usual.workers, 0, -1):
        if sum(fewest[: len(fewest) // workers]) >= usual.batch_size:
            return "" if workers == usual.workers else f" --workers {workers}"
    return f" --workers 1 --batch-size {sum(fewest)}"
