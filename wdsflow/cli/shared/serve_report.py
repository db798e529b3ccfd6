"""What serve prints: what is served, what becomes of the samples, and how to train on it."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.shell import quote
from wdsflow.text.words import how_many

from .terminal import fail
from .typed_command import Typed, free

if TYPE_CHECKING:
    from wdsflow.filtering.run_report import RunReport
    from wdsflow.reshaping.reshard.reshard_options import ReshardOptions
    from wdsflow.serving.resharded_tars import ReshardedTars
    from wdsflow.serving.shard_server import Counts
    from wdsflow.serving.shard_tars import Tars

SIZES = ("samples", "size", "shards", "divisible_by", "shuffle")  # the parameters that decide tars of other sizes


@dataclass
class ServeReport:
    """Prints what is served, and how to train on it."""

    tars: "Tars"  # what is served of each input
    joined: str  # what became of the samples in a join
    typed: Typed
    host: str | None
    options: "ReshardOptions"
    resharded: "ReshardedTars | None"

    def __post_init__(self) -> None:
        if self.resharded is not None and not self.resharded.urls:
            self._account(dict(enumerate(self.resharded.records)))  # which ends the run

    @property
    def counts(self) -> bool:
        """Whether samples are counted when requests are answered already."""
        from wdsflow.serving.shard_tars import is_local

        return self.resharded is None and (self.tars.filters or all(map(is_local, self.tars.urls)))

    def started(self, url: str) -> None:
        """Tell that requests are answered."""
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
        """Tell what becomes of the samples of each shard."""
        from wdsflow.serving.serve import pattern

        report = self._account(found)
        if report.failures:
            failed = how_many(len(report.failures), "shard")
            print(f"{failed} of {len(self.tars.urls)} cannot be served: see above", flush=True)
        else:
            kept = [each for each in report.records if each.kept]
            _advise(pattern(url, (each.shard for each in kept)), [each.counted for each in kept])

    def _account(self, counts: "Counts") -> "RunReport":
        """Print what becomes of the samples of shards. Exits if there are none."""
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
            if not line.startswith("not done: "):  # said before, when they were counted
                print(line)
        if self.joined:
            print(self.joined)
        if not any(record.kept for record in report.records):
            sys.stdout.flush()
            _nothing_left(len(report.failures), len(shards), self.typed)
        return report


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
    everything = typed.again(**dict.fromkeys(("ledger", "where", "keep", "unknown", "drop_unmatched", *SIZES)))
    chosen = not {"ledger", "drop_unmatched"}.isdisjoint(typed.given)
    print("wdsflow: nothing is served: no sample is left", file=sys.stderr)
    print(f"  {f'to serve all samples: {everything}' if chosen else look}", file=sys.stderr)
    raise typer.Exit(1)


def _advise(data: str, samples: Sequence[int] | None) -> None:
    """Print the commands that train on what is served; ``samples`` of each shard, None if they are not counted."""
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
