"""Do workers and ranks share the samples? Each must come out once, whatever their number."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from wdsflow.text.shell import escape
from wdsflow.text.words import enumeration, how_many, short_name

from ...finding import Severity
from ...verdicts.check_result import CheckResult, LoaderFault
from ..loader.loader_messages import RANKS, LoaderRequest, LoaderRun
from ..loader.loader_runs import LoaderRuns
from ..values.marks import KEY, NUMBER
from ..values.rows import NO_KEYS, Row, example_key_text, identifying_columns, identity
from .shared_reads import SharedRead, most_left_out, most_padding, streams_of

_DOES_NOT_SPLIT, _SAME_SEED = "P330", "P331"
# Numbers of workers that are tried.
_WORKER_COUNTS = (1, 2, 3, 4)
# Workers whose random numbers are compared.
_SEEDED_WORKERS = 2
# As many different values show that random numbers are drawn, or that samples differ.
_LEAST_VALUES = 4
# All samples come out several times, not only some of them.
_LEAST_COPIES = 1.9
# Of values that come as often as several workers with one seed draw them.
_LEAST_SHARE_TWICE = 0.9
_HOW_TO_SPLIT = {
    "worker": "split the shards by torch.utils.data.get_worker_info(), or by wds.split_by_worker",
    "rank": "split the shards by rank (nodesplitter=wds.split_by_node), or use a DistributedSampler",
}


def check_workers(runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> CheckResult:
    """Return whether workers and ranks share the samples.

    Args:
        runs: starts runs of the loader.
        request: has shards with copies of one sample.
        base: a run of the loader as it is.
    """
    return WorkersCheck(runs, request, base).result()


class WorkersCheck:
    """Compares what one process reads with what several read together."""

    def __init__(self, runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> None:
        self.runs = runs
        self.facts = base.facts
        # As many shards for each rank: whether a set can be divided is no matter of the loader.
        shards = max(1, len(request.urls) - len(request.urls) % RANKS)
        self.request = replace(
            request, epochs=1, urls=request.urls[:shards], shard_keys=request.shard_keys[:shards]
        )
        # Kind -> the first fault of it.
        self.faults: dict[str, LoaderFault] = {}
        self.notes: list[str] = []
        # Descriptions of what was compared without a fault.
        self.compared: list[str] = []

    def result(self) -> CheckResult:
        """Compare workers, then ranks, then the random numbers of workers."""
        has_workers = self.facts.can_have_workers
        # A map-style dataset is divided by its items, not by its shards.
        most_processes = max(_WORKER_COUNTS) if self.facts.map_style else len(self.request.urls)
        worker_counts = [
            count for count in _WORKER_COUNTS if has_workers and count <= most_processes
        ]
        requests = [replace(self.request, workers=0 if has_workers else None)]
        requests += [replace(self.request, workers=count) for count in worker_counts]
        if has_workers:
            clones = replace(
                self.request, urls=self.request.clone_urls, keys=frozenset(), unique_keys=False
            )
            requests += [replace(clones, workers=0), replace(clones, workers=_SEEDED_WORKERS)]
        alone, *others = self.runs.run_all(requests)
        if alone.status != "ended":
            return CheckResult(
                "workers", f"it does not run without workers: {alone.failure}", judged=False
            )
        self.find_unread(alone)
        # The runs over clones come after these.
        for count, run in zip(worker_counts, others, strict=False):
            self.compare(alone, SharedRead([run], f"with {how_many(count, 'worker')}", count))
        if most_processes >= RANKS:
            self._compare_ranks(alone, most_processes)
        if not has_workers:
            self.notes.append("workers: no DataLoader is found in it, so no worker was tried")
        elif len(worker_counts) < len(_WORKER_COUNTS):
            most = how_many(len(worker_counts), "worker")
            self.notes.append(f"workers: the shards are too few for more than {most}")
        if has_workers and "worker overlap" not in self.faults:
            self._compare_seeds(*others[len(worker_counts) :])
        return self._answer(alone)

    def _compare_ranks(self, alone: LoaderRun, most_processes: int) -> None:
        """Compare one process with ranks.

        Each rank has the loader's own number of workers, if there is enough data for them.
        """
        workers: int | None = None
        if self.facts.can_have_workers:
            # Repeats of workers would come out on ranks as well.
            most = 0 if "worker overlap" in self.faults else 2
            workers = min(self.facts.workers or 0, most, most_processes // RANKS)
        ranks = self.runs.run_ranks([replace(self.request, workers=workers)] * RANKS)
        self.compare(alone, SharedRead(ranks, f"on {RANKS} ranks", RANKS * max(1, workers or 0)))
        errors = [run.group_error for run in ranks if run.group_error]
        if errors:
            self.notes.append(
                f"workers: ranks ran without a group of torch.distributed: {errors[0]}"
            )

    def _answer(self, alone: LoaderRun) -> CheckResult:
        finite = all(alone.complete) and not self.facts.repeats
        if self.compared:
            promise = "each sample once" if finite else "workers and ranks do not repeat each other"
            summary = f"{promise} {enumeration(self.compared)}"
        else:
            summary = self.notes[0] if self.notes else "nothing to compare"
        faults = tuple(self.faults.values())
        judged = bool(self.compared or faults)
        return CheckResult("workers", summary, faults, judged, tuple(self.notes))

    def find_unread(self, alone: LoaderRun) -> None:
        """Find what a single process does not read.

        More workers would not read it, either.
        """
        if not all(alone.complete) or self.facts.repeats:
            return
        urls = self.request.urls
        unopened = [url for url in urls if url not in alone.opened]
        opened_samples = 0
        for url, keys in zip(urls, self.request.shard_keys, strict=True):
            if url in alone.opened:
                opened_samples += len(keys)
        # Otherwise something else than Python opens the others.
        if unopened and opened_samples >= len(alone.rows) > 0:
            shards = f"{how_many(len(unopened), 'shard')} of {len(urls)} (such as {short_name(unopened[-1])})"
            reason = "right only if it holds them out on purpose, or reads them in a later epoch"
            self._add_fault(
                "unread",
                f"in its first epoch it never opens {shards}: {reason}",
                severity="warning",
            )
        self._find_unread_ends(alone)

    def _find_unread_ends(self, alone: LoaderRun) -> None:
        """Find first or last samples that are missing in each shard."""
        read_keys = set()
        for row in alone.rows:
            read_keys |= {mark.removeprefix(KEY) for mark in row.values() if mark.startswith(KEY)}
        shards = self.request.shard_keys
        unread = [[key for key in keys if key not in read_keys] for keys in shards]
        if not read_keys or not self.request.unique_keys or len(shards) <= 1 or not all(unread):
            return
        most = max(map(len, unread))
        if most > 1:
            samples = f"samples (up to {most:,}) of each shard never come out"
        else:
            samples = "sample of each shard never comes out"
        # Several may be those of a batch that is not full.
        severity: Severity = "warning" if most > 1 else "error"
        example = escape(unread[0][0])
        if all(_are_first(some, keys) for some, keys in zip(unread, shards, strict=True)):
            self._add_fault("unread", f"the first {samples} (such as {example})", severity=severity)
        if all(
            _are_first(some[::-1], keys[::-1]) for some, keys in zip(unread, shards, strict=True)
        ):
            self._add_fault("unread", f"the last {samples} (such as {example})", severity=severity)

    def compare(self, alone: LoaderRun, shared: SharedRead) -> None:
        """Compare what one process reads alone with what several read together."""
        for run in shared.runs:
            if run.status != "ended":
                verb = "ends" if run.status == "raised" else "stops"
                self._add_fault(
                    f"{shared.kind} end", f"{shared.description} it {verb}: {run.failure}", run.line
                )
                return
        finite = all(alone.complete) and shared.complete and not self.facts.repeats
        columns = identifying_columns(
            alone.rows, shared.rows, unique_keys=self.request.unique_keys, whole=finite
        )
        if not columns:
            self.notes.append(f"workers: {shared.description} nothing was compared: {NO_KEYS}")
            return
        faults_before = len(self.faults)
        if finite:
            self._compare_counts(alone, shared, columns)
            self._compare_lengths(shared)
        else:
            self._compare_streams(shared, columns)
        if len(self.faults) == faults_before:
            self.compared.append(shared.description)

    def _compare_counts(
        self, alone: LoaderRun, shared: SharedRead, columns: tuple[str, ...]
    ) -> None:
        """Compare how often each sample comes out."""
        expected = Counter(identity(row, columns) for row in alone.rows)
        counts = Counter(identity(row, columns) for row in shared.rows)
        # What the last batch of one process leaves out may
        # come out elsewhere, once: that is no repeat.
        once = Counter(dict.fromkeys(counts, 1))
        repeated = counts - (expected | once)
        missing = expected - counts
        padding = most_padding(shared)
        if repeated.total() > min(padding, expected.total() // 4):
            self._add_overlap(shared, expected, repeated)
        elif missing.total() > max(most_left_out(shared), padding):
            samples = f"{how_many(missing.total(), 'sample')} of {expected.total():,}"
            self._add_fault(
                f"{shared.kind} gap",
                f"{shared.description} {samples} never come out{example_key_text(missing)}",
            )
        elif repeated:
            text = (
                f"{how_many(repeated.total(), 'sample')} repeated, so that all ranks have as many"
            )
            self.notes.append(f"workers: {shared.description} {text}{example_key_text(repeated)}")
        elif missing:
            samples = how_many(missing.total(), "sample")
            self.notes.append(
                f"workers: {shared.description} {samples} left out, for full batches or equal shares"
            )

    def _add_overlap(
        self,
        shared: SharedRead,
        expected: Counter[tuple[str, ...]],
        repeated: Counter[tuple[str, ...]],
    ) -> None:
        copies = sum(shared.item_sizes) / max(1, expected.total())
        if copies > _LEAST_COPIES:
            text = f"each {shared.kind} reads all samples: they come out {round(copies)} times"
        else:
            samples = f"{how_many(repeated.total(), 'sample')} of {expected.total():,}"
            text = f"{samples} come out more than once{example_key_text(repeated)}"
        self._add_fault(
            f"{shared.kind} overlap", f"{shared.description} {text}: {_HOW_TO_SPLIT[shared.kind]}"
        )

    def _compare_lengths(self, shared: SharedRead) -> None:
        """Compare how many items each rank gets."""
        items = [sum(map(len, run.epochs)) for run in shared.runs]
        if len(set(items)) > 1:
            numbers = enumeration([f"{count:,}" for count in items])
            reason = "the rank with more waits in its next collective operation, and the run hangs"
            self._add_fault("unequal", f"{shared.description} they get {numbers} items: {reason}")

    def _compare_streams(self, shared: SharedRead, columns: tuple[str, ...]) -> None:
        """Compare the processes of endless runs with each other.

        Such runs repeat samples sooner or later, so repeats alone are no fault.
        """
        streams = streams_of(shared, columns)
        sets = [set(stream) for stream in streams]
        shortest = min(map(len, streams))
        if shared.processes == 1 or shortest < _LEAST_VALUES or len(sets[0]) < _LEAST_VALUES:
            return
        shared_samples = set.intersection(*sets)
        if all(stream[:shortest] == streams[0][:shortest] for stream in streams):
            text = f"each {shared.kind} gives the same samples in the same order"
        elif (
            self.facts.repeats
            and not self.facts.resampled
            and len(shared_samples) > min(map(len, sets)) / 2
        ):
            text = f"the {shared.kind}s give the same samples"
        else:
            return
        self._add_fault(
            f"{shared.kind} overlap", f"{shared.description} {text}: {_HOW_TO_SPLIT[shared.kind]}"
        )

    def _compare_seeds(self, alone: LoaderRun, shared: LoaderRun) -> None:
        """Compare copies of one sample to find workers with the same random draws.

        Values that differ between copies, and that every worker has, are the same draws.
        """
        for run in (alone, shared):
            if run.status != "ended":
                text = f"random numbers were not compared: with copies of one sample it ends: {run.failure}"
                self.notes.append(f"workers: {text}")
                return
        column = _column_drawn_alike(alone.rows, shared.rows)
        if column:
            text = f"in copies of one sample, {column} has each value twice with {_SEEDED_WORKERS} workers"
            message = f"each worker draws the same random numbers: {text}, and differs with one"
            self._add_fault("worker seed", message, self.facts.lines["seeds"], _SAME_SEED)

    def _add_fault(
        self,
        kind: str,
        text: str,
        line: str = "",
        code: str = _DOES_NOT_SPLIT,
        severity: Severity = "error",
    ) -> None:
        """Add a fault if it is the first of its kind.

        Args:
            kind: begins with "worker" if the fault is one of workers only.
            text: what happened.
            line: of the user's code; "": the line that reads.
            code: of the rule.
            severity: of a loader that has workers itself.
        """
        line = line or self.facts.lines.get("reads", "")
        message = text
        if kind.startswith("worker") and not self.facts.workers:
            # The check has added the workers.
            message = f"it has num_workers=0; {message}"
            severity = "warning"
        if line and line not in text:
            message = f"{line}: {message}"
        self.faults.setdefault(kind, LoaderFault(code, message, severity))


def _are_first(some: Sequence[str], keys: Sequence[str]) -> bool:
    """Return whether some keys of a shard are its first ones, and not all."""
    return len(some) < len(keys) and list(some) == list(keys[: len(some)])


def _column_drawn_alike(alone: Sequence[Row], shared: Sequence[Row]) -> str:
    """Return a column that two workers drew alike, in copies of one sample.

    It has each value twice in two workers, and once in one. Returns "" if there is none.
    """
    if not shared:
        return ""
    for name in shared[0]:
        values = Counter(row.get(name, "") for row in alone)
        shared_values = Counter(row.get(name, "") for row in shared)
        # A whole number is rather a counter than random.
        if all(value.startswith(NUMBER) for value in values) or len(shared_values) < _LEAST_VALUES:
            continue
        # With one worker, hardly any value comes twice.
        if values.total() - len(values) > values.total() // 10:
            continue
        twice = sum(count for count in shared_values.values() if count % _SEEDED_WORKERS == 0)
        if twice >= _LEAST_SHARE_TWICE * shared_values.total():
            return f"column {name!r}" if name else "the content"
    return ""
