"""Find the smallest shards with which a command still fails, and write them."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from wdsflow.bisection.tried_command import FOLDER, SHARDS, RunEnd, TriedCommand, filled
from wdsflow.pieces.pieces import with_headers
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.base import LocalSource, Range, SourceError, local_file, open_file
from wdsflow.shards.source.opening import open_source, seekable
from wdsflow.text.words import duration, how_many

WORK = ".work"
NEW_FOLDER = "NEW-FOLDER"  # in a command to be run by hand
_SLOWER = 2.0  # the time limit of a run is this many times the longest one that ended,
_MORE = 60.0  # plus this many seconds
_SHOWN = 5  # last lines of the first run


class DoesNotFail(Exception):
    """The command does not fail with all shards, or fails only sometimes; see the message."""


class Passes(DoesNotFail):
    """The command does not fail with all shards; it may hang."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A shard of the result."""

    url: str
    path: Path
    samples: int  # of the whole shard
    keys: tuple[str, ...] | None  # of the samples that are left; None: an identical copy of the shard


@dataclass(frozen=True, slots=True)
class Bisection:
    """The smallest shards, written to files."""

    shards: tuple[Kept, ...]
    given: int  # shards
    outcome: RunEnd
    runs: int

    def words(self, command: Sequence[str]) -> list[str]:
        """Return the command with these shards, to be run manually."""
        paths = [shard.path for shard in self.shards]
        samples = sum(shard.samples if shard.keys is None else len(shard.keys) for shard in self.shards)
        return filled(command, named_shards(paths[0].parent, len(paths)), samples, NEW_FOLDER)


@dataclass(frozen=True, slots=True)
class _Shard:
    """One shard of a set that is tried."""

    number: int
    samples: int
    path: Path


def bisect_shards(urls: Sequence[str], out: Path, command: TriedCommand, say: Callable[[str], None]) -> Bisection:
    """Write the smallest shards with which a command fails as with all, and return their contents.

    First it omits whole shards, then samples of each remaining shard; their bytes do not change. A shard is copied as
    it is if the command does not fail with its samples alone.

    Args:
        urls: shards; remote and compressed ones are copied first.
        out: a folder that does not exist yet, or is empty.
        command: the command, and its kind of failure.
        say: called with a line for each run.

    Raises:
        DoesNotFail: there is no failure, or it does not depend on the shards.
        CannotStart: there is no such program.
        SourceError: a shard cannot be read.
        OSError: the disk fails.
    """
    work, made = out / WORK, not out.exists()
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
    work.mkdir(parents=True)
    try:
        search = _Search(urls, work, command, say)
        return search.result(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if made:
            with suppress(OSError):
                out.rmdir()  # if nothing was found


def named_shards(folder: Path, number: int) -> Path:
    """Return the numbered shards in a folder: one path, or a range in braces, as in OpenCLIP and webdataset."""
    return folder / ("000000.tar" if number == 1 else f"{{000000..{number - 1:06d}}}.tar")


class _Search:
    def __init__(self, urls: Sequence[str], work: Path, command: TriedCommand, say: Callable[[str], None]) -> None:
        self.urls, self.work, self.command, self.say = urls, work, command, say
        self.runs = 0
        self._longest = 0.0
        self._differed = False
        self._first: RunEnd | None = None
        self._given = [self._local(number) for number in range(len(urls))]

    def result(self, out: Path) -> Bisection:
        """Run all steps."""
        first = self._first = self._run(self._given)
        last = first.output.splitlines()[-_SHOWN:]
        for line in last:
            self.say(f"  {line}")
        given = how_many(len(self._given), "shard")
        if not first.failed:
            raise Passes(
                f"the command {first.how} with {given}: look for a hang with --hang-after, or for a text with --match"
            )
        if named_shards(Path(), len(self._given)).name in (first.error or "\n".join(last)) and len(self._given) > 1:
            raise DoesNotFail(
                f"the command takes no range in braces, so it failed for that: give it {FOLDER} in place of {SHARDS}"
            )
        left = minimize(self._given, self._fails)
        keys: list[tuple[str, ...] | None] = [None] * len(left)
        for at in range(len(left)):
            left[at], keys[at] = self._smallest(left, at)
        if not self._fails(left):
            raise DoesNotFail("the command fails only sometimes: it did with these shards, and then did not")
        if not self._differed:
            raise DoesNotFail(
                f"each of {how_many(self.runs, 'run')} failed in the same way: the command may fail whatever the shards hold"
            )
        kept = []
        for number, (shard, some) in enumerate(zip(left, keys, strict=True)):
            path = out / f"{number:06d}.tar"
            with LocalSource(str(shard.path), open_file(str(shard.path))) as source:
                write_pieces(path, source, [(0, source.length or 0)], closed=False)
            kept.append(Kept(self.urls[shard.number], path, self._given[shard.number].samples, some))
        return Bisection(tuple(kept), len(self._given), first, self.runs)

    def _local(self, number: int) -> _Shard:
        """Return a shard as a local file that is not compressed: itself, or a copy."""
        url = self.urls[number]
        try:
            with open_source(url, allow_pipe=True) as stored:
                local = local_file(url) if stored.compression is None else None
            with seekable(url, self.work, allow_pipe=True) as (source, _):
                if source.fault is not None:  # which an unpacked copy would not have
                    raise SourceError("io", f"{source.fault}; fetch the shard again, then bisect")
                path = Path(local or self.work / f"copy-{number:06d}.tar").absolute()
                if local is None:
                    write_pieces(path, source, [(0, source.length or 0)], closed=False)
                return _Shard(number, sum(1 for _ in Samples(source, contents=False, junk=True)), path)
        except SourceError as error:
            raise SourceError(error.kind, f"{url}: {error.detail}", error.fix) from None

    def _smallest(self, shards: list[_Shard], at: int) -> tuple[_Shard, tuple[str, ...] | None]:
        """Return the smallest shard for a place, and the keys of its samples; None if it stays as it is."""
        shard = shards[at]
        with LocalSource(str(shard.path), open_file(str(shard.path))) as source:
            samples = Samples(source, contents=False, junk=True)
            found = [(sample.key, (sample.start, sample.end)) for sample in samples]
            made = self.work / f"smaller-{at:06d}.tar"

            def fails(part: list[tuple[str, Range]]) -> bool:
                write_pieces(made, source, with_headers([ends for _, ends in part], samples.headers))
                return self._fails([*shards[:at], _Shard(shard.number, len(part), made), *shards[at + 1 :]])

            if not found or not fails(found):
                return shard, None
            left = minimize(found, fails)
            write_pieces(made, source, with_headers([ends for _, ends in left], samples.headers))
        return _Shard(shard.number, len(left), made), tuple(key for key, _ in left)

    def _fails(self, shards: list[_Shard]) -> bool:
        assert self._first is not None
        return self._run(shards).same_failure(self._first)

    def _run(self, shards: list[_Shard]) -> RunEnd:
        samples = sum(shard.samples for shard in shards)
        limit = None if self._first is None else _MORE + _SLOWER * self._longest
        self.runs += 1
        with self._named(shards) as names:
            outcome = self.command.run(names, samples, limit)
        self._differed = self._differed or not outcome.same_failure(self._first or outcome)
        if outcome.how != "is unfinished":
            self._longest = max(self._longest, outcome.seconds)
        what = f"{how_many(len(shards), 'shard')}, {how_many(samples, 'sample')}"
        self.say(f"run {self.runs}: {what}: {outcome} ({duration(outcome.seconds)})")
        return outcome

    @contextmanager
    def _named(self, shards: list[_Shard]) -> Iterator[Path]:
        """Yield the shards as one argument for the command."""
        # Not below OUT: braces in its path would be taken for a pattern. Links take no space.
        with TemporaryDirectory(prefix="wdsflow-bisect-") as name:
            folder = Path(name)
            for number, shard in enumerate(shards):
                (folder / f"{number:06d}.tar").symlink_to(shard.path.absolute())
            yield named_shards(folder, len(shards))


T = TypeVar("T")


def minimize(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Return a part of ``items``, in their order, that fails, but passes if any one of its items is removed.

    A single item at fault among n takes about 2 log2(n) calls; several that fail only together take up to n².

    Args:
        items: known to fail all together.
        fails: whether a part fails; never called with an empty one.

    Source: the ddmin algorithm of Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002.

    >>> minimize(range(1000), lambda part: 17 in part and 800 in part)
    [17, 800]
    """
    current, parts = list(items), 2
    while len(current) > 1:
        borders = [len(current) * number // parts for number in range(parts + 1)]
        tried = [current[start:end] for start, end in pairwise(borders)]
        if parts > 2:  # with two, the rest is the other part
            tried += [current[:start] + current[end:] for start, end in pairwise(borders)]
        smaller = next((each for each in tried if fails(each)), None)
        if smaller is not None:
            parts = 2 if len(smaller) <= -(-len(current) // parts) else max(parts - 1, 2)
            current = smaller
        elif parts >= len(current):
            break
        else:
            parts = min(2 * parts, len(current))
    return current
