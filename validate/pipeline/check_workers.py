"""Do workers and ranks share the samples? Each must come out once, whatever their number."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, listed, short

from ..finding import Severity
from ..verdicts.check_result import CheckResult, LoaderFault
from .loader_process import RANKS, LoaderRequest, LoaderRun, LoaderRuns
from .marks import KEY, NUMBER
from .rows import NO_KEYS, Row, identifying, identity, such_as

_SPLIT, _SEED = "P330", "P331"
_COUNTS = (1, 2, 3, 4)
# Workers whose random numbers are compared.
_TWO = 2
# Different values that show that random numbers are drawn.
_DRAWS = 4


class _Workers:
    def __init__(self, runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> None:
        self.runs, self.facts = runs, base.facts
        # As many for each rank: whether a set can be divided is no matter of the loader.
        urls = request.urls
        count = max(1, len(urls) - len(urls) % RANKS)
        self.request = replace(request, epochs=1, urls=urls[:count], shard_keys=request.shard_keys[:count])
        self.faults: dict[str, LoaderFault] = {}
        self.notes: list[str] = []
        self.judged: list[str] = []

    def result(self) -> CheckResult:
        """Compare workers, then ranks, then the random numbers of both."""
        workers = self.facts.can_have_workers
        shards = len(self.request.urls) if not self.facts.map_style else max(_COUNTS)
        counts = [0, *(count for count in _COUNTS if count <= shards)] if workers else [None]
        copies = replace(self.request, urls=self.request.clones, keys=frozenset(), unique_keys=False)
        asked = [replace(self.request, workers=count) for count in counts]
        asked += [replace(copies, workers=count) for count in (0, _TWO)] if workers else []
        runs = self.runs.run_all(asked)
        alone = runs[0]
        if alone.how != "ended":
            return CheckResult("workers", f"it does not run without workers: {alone.failure}", judged=False)
        self._unread(alone)
        for count, run in zip(counts[1:], runs[1 : len(counts)], strict=True):
            self._compare(alone, [run], f"with {how_many(count or 0, 'worker')}", count or 1)
        if shards >= RANKS:
            # Ranks would have these repeats as well.
            most = 0 if "worker overlap" in self.faults else 2
            own = min(self.facts.workers or 0, most, shards // RANKS) if workers else None
            ranks = self.runs.run_all([replace(self.request, workers=own)] * RANKS, ranks=True)
            self._compare(alone, ranks, f"on {RANKS} ranks", RANKS * max(1, own or 0))
            if why := next((run.no_group for run in ranks if run.no_group), ""):
                self.notes.append(f"workers: ranks ran without a group of torch.distributed: {why}")
        if len(counts) <= len(_COUNTS):
            few = f"the shards are too few for more than {how_many(len(counts) - 1, 'worker')}"
            none = "no DataLoader is found in it, so no worker was tried"
            self.notes.append(f"workers: {few if workers else none}")
        if workers and "worker overlap" not in self.faults:
            self._seeds(*runs[len(counts) :])
        finite = all(alone.whole) and not self.facts.repeats
        once = "each sample once" if finite else "workers and ranks do not repeat each other"
        summary = f"{once} {listed(self.judged)}" if self.judged else next(iter(self.notes), "nothing to compare")
        faults = tuple(self.faults.values())
        return CheckResult("workers", summary, faults, bool(self.judged or faults), tuple(self.notes))

    def _unread(self, alone: LoaderRun) -> None:
        """Look for what no number of workers would bring, because one process alone does not read it, either."""
        if not all(alone.whole) or self.facts.repeats:
            return
        keys, urls = self.request.shard_keys, self.request.urls
        left = [url for url in urls if url not in alone.opened]
        held = sum(len(some) for url, some in zip(urls, keys, strict=True) if url in alone.opened)
        # Otherwise something else than Python opens the others.
        if left and held >= len(alone.rows) > 0:
            some = f"{how_many(len(left), 'shard')} of {len(urls)} (such as {short(left[-1])})"
            why = "right only if it holds them out on purpose, or reads them in a later epoch"
            self._fault("unread", f"in its first epoch it never opens {some}: {why}", severity="warning")
        seen = {mark.removeprefix(KEY) for row in alone.rows for mark in row.values() if mark.startswith(KEY)}
        lost = [[key for key in of_shard if key not in seen] for of_shard in keys]
        if not (seen and self.request.unique_keys and len(keys) > 1 and all(lost)):
            return
        most = max(map(len, lost))
        what = f"samples (up to {most:,}) of each shard never come" if most > 1 else "sample of each shard never comes"
        for name, step in (("first", 1), ("last", -1)):
            at_end = zip(lost, keys, strict=True)
            if all(some[::step] == [*whole[::step][: len(some)]] and len(some) < len(whole) for some, whole in at_end):
                # Perhaps batches that are not full.
                severity: Severity = "warning" if most > 1 else "error"
                self._fault("unread", f"the {name} {what} out (such as {escape(lost[0][0])})", severity=severity)

    def _compare(self, alone: LoaderRun, shared: Sequence[LoaderRun], where: str, parts: int) -> None:
        """Compare what one process reads alone with what several read together."""
        what = "rank" if len(shared) > 1 else "worker"
        failed = next((run for run in shared if run.how != "ended"), None)
        if failed is not None:
            ends = "ends" if failed.how == "raised" else "stops"
            self._fault(f"{what} end", f"{where} it {ends}: {failed.failure}", failed.line)
            return
        found = [row for run in shared for row in run.rows]
        finite = all([*alone.whole, *(whole for run in shared for whole in run.whole)]) and not self.facts.repeats
        columns = identifying(alone.rows, found, unique_keys=self.request.unique_keys, whole=finite)
        if not columns:
            self.notes.append(f"workers: {where} nothing was compared: {NO_KEYS}")
            return
        before = len(self.faults)
        if finite:
            self._count(alone, shared, columns, where, what, parts)
        else:
            self._side_by_side(shared, columns, where, what, parts)
        if len(self.faults) == before:
            self.judged.append(where)

    def _count(
        self, alone: LoaderRun, shared: Sequence[LoaderRun], columns: tuple[str, ...], where: str, what: str, parts: int
    ) -> None:
        expected = Counter(identity(row, columns) for row in alone.rows)
        found = Counter(identity(row, columns) for run in shared for row in run.rows)
        # What the last batch of one process leaves out may come out elsewhere, once: that is no repeat.
        twice, missing = found - (expected | Counter(dict.fromkeys(found, 1))), expected - found
        items = [len(item) for run in shared for epoch in run.epochs for item in epoch]
        size, total = max(items, default=1), sum(items)
        sizes = [sum(map(len, run.epochs)) for run in shared]
        same = len({len(run.rows) for run in shared}) == 1
        # A sampler may add samples so that all ranks have as many, or leave out those that do not fill a batch.
        padding = max(len(shared) - 1, size - 1 if same else 0) if len(shared) > 1 else 0
        dropped = parts * (size - 1) if items and min(items) == size else 0
        dropped = max(dropped, padding, parts - 1)
        copies = total / max(1, expected.total())
        if twice.total() > min(padding, expected.total() // 4):
            whole = copies > 1.9 or (len(shared) > 1 and all(len(run.rows) == len(alone.rows) for run in shared))
            text = (
                f"each {what} reads all samples: they come out {round(copies)} times"
                if whole
                else f"{how_many(twice.total(), 'sample')} of {expected.total():,} come out more than once{such_as(twice)}"
            )
            self._fault(f"{what} overlap", f"{where} {text}: {_SPLITTERS[what]}")
        elif missing.total() > dropped:
            lost = f"{how_many(missing.total(), 'sample')} of {expected.total():,}"
            self._fault(f"{what} gap", f"{where} {lost} never come out{such_as(missing)}")
        elif twice:
            text = f"{how_many(twice.total(), 'sample')} repeated, so that all ranks have as many"
            self.notes.append(f"workers: {where} {text}{such_as(twice)}")
        elif missing:
            count = how_many(missing.total(), "sample")
            self.notes.append(f"workers: {where} {count} left out, for full batches or equal shares")
        if len(set(sizes)) > 1:
            numbers = listed([f"{count:,}" for count in sizes])
            why = "the rank with more waits in its next collective operation, and the run hangs"
            self._fault("unequal", f"{where} they get {numbers} items: {why}")

    def _side_by_side(
        self, shared: Sequence[LoaderRun], columns: tuple[str, ...], where: str, what: str, parts: int
    ) -> None:
        """Compare runs without an end: ranks by their samples, workers by the items that they give in turn."""
        items = [[[identity(row, columns) for row in item] for epoch in run.epochs for item in epoch] for run in shared]
        if len(shared) == 1:
            items = [items[0][index::parts] for index in range(parts)]
        each = [list(chain.from_iterable(some)) for some in items]
        shortest, sets = min(map(len, each)), [set(some) for some in each]
        if parts == 1 or shortest < _DRAWS or len(sets[0]) < _DRAWS:
            return
        if all(one[:shortest] == each[0][:shortest] for one in each):
            text = f"each {what} gives the same samples in the same order"
        elif self.facts.repeats and not self.facts.resampled and len(set.intersection(*sets)) > min(map(len, sets)) / 2:
            text = f"the {what}s give the same samples"
        else:
            return
        self._fault(f"{what} overlap", f"{where} {text}: {_SPLITTERS[what]}")

    def _seeds(self, alone: LoaderRun, two: LoaderRun) -> None:
        """Look at copies of one sample: values that differ between them, and that each worker has, are the same draws."""
        failed = next((run for run in (alone, two) if run.how != "ended"), None)
        if failed is not None:
            text = f"random numbers were not compared: with copies of one sample it ends: {failed.failure}"
            self.notes.append(f"workers: {text}")
        elif drawn := _drawn_alike(alone.rows, two.rows):
            text = f"in copies of one sample, {drawn} has each value twice with {_TWO} workers, and differs with one"
            line = self.facts.lines["seeds"]
            self._fault("worker seed", f"each worker draws the same random numbers: {text}", line, _SEED)

    def _fault(self, kind: str, text: str, line: str = "", code: str = _SPLIT, severity: Severity = "error") -> None:
        line = line or self.facts.lines.get("reads", "")
        prefix = f"{line}: " if line and line not in text else ""
        # By us.
        added = kind.startswith("worker") and not self.facts.workers
        prefix += "it has num_workers=0; " if added else ""
        self.faults.setdefault(kind, LoaderFault(code, f"{prefix}{text}", "warning" if added else severity))


_SPLITTERS = {
    "worker": "split the shards by torch.utils.data.get_worker_info(), or by wds.split_by_worker",
    "rank": "split the shards by rank (nodesplitter=wds.split_by_node), or use a DistributedSampler",
}


def check_workers(runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> CheckResult:
    """Return whether workers and ranks share the samples; ``base``: a run of the loader as it is."""
    return _Workers(runs, request, base).result()


def _drawn_alike(alone: Sequence[Row], shared: Sequence[Row]) -> str:
    """Return a column of copies of one sample that has each value twice in two workers, and once in one; "" if none."""
    for name in shared[0] if shared and alone else ():
        one, two = Counter(row.get(name, "") for row in alone), Counter(row.get(name, "") for row in shared)
        # A whole number is rather one than random.
        counter = all(value.startswith(NUMBER) for value in one)
        if len(two) < _DRAWS or counter or one.total() - len(one) > one.total() // 10:
            continue
        if sum(count for count in two.values() if count % _TWO == 0) >= 0.9 * two.total():
            return f"column {name!r}" if name else "the content"
    return ""
