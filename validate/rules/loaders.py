"""The answers of --check about the user's own loader: resuming, starting workers, splitting."""

from collections.abc import Iterator

from ..finding import Finding
from ..verdicts.verdict import PIPELINE
from .kit.base import Context, Rule


class LoaderRule(Rule):
    """A rule that reports the faults with its code that ``--check`` has found."""

    def check(self, context: Context) -> Iterator[Finding]:
        for result in context.checks:
            for fault in result.faults:
                if fault.code == self.code:
                    yield self.finding(fault.message, [PIPELINE], severity=fault.severity)


class WrongResume(LoaderRule):
    """The loader does not resume where it stopped.

    What: ``--check resume`` took the state of the loader at several places, loaded it in new
    processes, took a second state there, and resumed once more; then once on two ranks. The samples
    were compared with those of the run in which the state was taken.

    Why it matters: a run that is interrupted each day trains on the same first samples again and
    again, and never on others. Nothing fails, and the loss looks normal.

    In practice: the state of a dataset whose DataLoader has workers, which read copies of it, or
    has batches prefetched; a position that is not set back at the end of an epoch; a generator
    without its random state; a state that is the dictionary with which the loader goes on working.

    Fix: save and load the state of the loader, with torchdata's ``StatefulDataLoader``; put epoch,
    position and random state into it, and return a copy.
    """

    code = "P327"
    severity = "error"


class NoResume(LoaderRule):
    """The loader has no state: it cannot resume.

    What: neither the loader nor anything in it has ``state_dict`` and ``load_state_dict``.

    Why it matters: after an interruption the epoch begins again, so its first samples are seen more
    often than its last. With shards that are drawn at random (``resampled=True``), nothing in
    particular is repeated.

    In practice: ``wds.WebLoader`` and torch's ``DataLoader`` have no state.

    Fix: torchdata's ``StatefulDataLoader``, ``wdsflow train``, or short epochs with a checkpoint at
    each end.
    """

    code = "P328"


class WrongStart(LoaderRule):
    """The loader's workers do not start by every method, or read other samples.

    What: ``--check fork`` started the workers by fork, spawn and forkserver, and compared the
    samples. The message has what cannot be pickled, with its place in the loader and the line where
    it was made.

    Why it matters: fork is the default on Linux up to Python 3.13, forkserver from 3.14 on, and
    spawn on macOS. A loader that needs fork fails there, and forked workers of a process with
    threads may hang.

    In practice: a lambda in ``.map``; a function inside a function as ``collate_fn``; a file that
    is opened in ``__init__``; a global that is set before the workers start; a script without
    ``if __name__ == "__main__"``.

    Fix: functions at the top of a module; files and locks opened in ``__iter__``; settings passed
    as arguments. Without workers (``num_workers=0``) it is a warning.
    """

    code = "P329"
    severity = "error"


class WrongSplit(LoaderRule):
    """Workers or ranks read the same samples, leave some out, or get unequal numbers of batches.

    What: ``--check workers`` read an epoch with 0 to 4 workers, and on two ranks with RANK,
    WORLD_SIZE and a gloo group, and compared the samples. Shards that no process opens are named
    too, and so are the first or last samples of each shard, if they never come out.

    Why it matters: what each of 8 ranks reads alike counts eightfold in each step, and an epoch has
    8 times the samples. A rank with fewer batches ends first: the others wait for it, and the run
    hangs.

    In practice: an ``IterableDataset`` that ignores ``get_worker_info()``; ``nodesplitter=None``,
    or none, where webdataset raises an error on several ranks; ``DataLoader(shuffle=True)`` without
    a ``DistributedSampler``; a loop that stops before the last shard, or forgets the last sample
    when a tar ends.

    Fix: ``nodesplitter=wds.split_by_node`` and ``wds.split_by_worker``; ``DistributedSampler``;
    ``with_epoch`` or resampling for equal numbers of batches.
    """

    code = "P330"
    severity = "error"


class SameSeed(LoaderRule):
    """Workers draw the same random numbers.

    What: ``--check workers`` read copies of one sample. A value that differs between them, and that
    comes from each worker, was drawn from the same random numbers.

    Why it matters: samples in different workers are cropped or flipped alike; there is less variety
    than it seems.

    In practice: ``random.Random(0)`` or ``np.random.default_rng(0)`` made in ``__init__``; a
    ``worker_init_fn`` that gives each worker one seed.

    Fix: seed generators in the worker, by ``torch.initial_seed()`` or ``get_worker_info().seed``.
    """

    code = "P331"
    severity = "error"
