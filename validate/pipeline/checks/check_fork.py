"""Do a loader's workers start by fork, spawn and forkserver, and give the same samples?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from wdsflow.text.words import enumeration

from ...finding import Severity
from ...verdicts.check_result import CheckResult, LoaderFault
from ..loader.loader_messages import LoaderFacts, LoaderRequest, LoaderRun
from ..loader.loader_runs import LoaderRuns
from ..values.rows import identifying_columns

_RULE = "P329"
METHODS = ("fork", "spawn", "forkserver")
# Of a loader that has none.
_WORKERS = 2

# What identifies samples, in order.
_SampleIds = list[tuple[str, ...]]


def check_fork(runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> CheckResult:
    """Return whether a loader works with each start method.

    A loader without workers is tried with two.

    Args:
        runs: starts runs of the loader.
        request: for one of them.
        base: a run of the loader as it is.
    """
    facts = base.facts
    if facts.has_start_method:
        return CheckResult(
            "fork", "its DataLoader has its own multiprocessing_context: no other method is used"
        )
    if not facts.can_have_workers:
        return CheckResult(
            "fork", "no DataLoader is found in it, so no start method was tried", judged=False
        )
    request = replace(request, epochs=1, workers=None if facts.workers else _WORKERS)
    # Two by fork show whether two runs are alike at all.
    forked_again, *by_method = runs.run_all(
        [replace(request, start_method=method) for method in (METHODS[0], *METHODS)]
    )
    if any("context has already been set" in run.error for run in by_method):
        return CheckResult("fork", "it sets the start method itself: no other is used")
    methods_of = _differences(forked_again, by_method, unique_keys=request.unique_keys)
    faults = []
    for text, methods in methods_of.items():
        message = f"{enumeration(methods)}: {text}{_missing_globals(facts, text, methods)}"
        severity: Severity = "error"
        if not facts.workers:
            message = f"with num_workers={_WORKERS}, {message}"
            severity = "warning"
        faults.append(LoaderFault(_RULE, message, severity))
    if _are_alike(forked_again, by_method[0], unique_keys=request.unique_keys):
        summary = f"the same samples by {enumeration(METHODS)}"
    else:
        reason = f"two runs by {METHODS[0]} differ, or do not end"
        summary = f"it starts by {enumeration(METHODS)}; its samples were not compared: {reason}"
    return CheckResult("fork", summary, tuple(faults))


def _differences(
    forked_again: LoaderRun, by_method: Sequence[LoaderRun], *, unique_keys: bool
) -> dict[str, list[str]]:
    """Return what is wrong with some methods, and these methods."""
    forked = by_method[0]
    columns = _identifying_columns(forked_again, forked, unique_keys=unique_keys)
    are_alike = _are_alike(forked_again, forked, unique_keys=unique_keys)
    same_order = _sample_ids(forked_again, columns) == _sample_ids(forked, columns)
    methods_of: dict[str, list[str]] = {}
    for method, run in zip(METHODS, by_method, strict=True):
        texts = _failures(run)
        if not texts and are_alike and all(run.complete):
            difference = _difference(
                _sample_ids(forked, columns), _sample_ids(run, columns), same_order=same_order
            )
            texts = [difference] if difference else []
        for text in texts:
            methods_of.setdefault(text, []).append(method)
    return methods_of


def _are_alike(forked_again: LoaderRun, forked: LoaderRun, *, unique_keys: bool) -> bool:
    """Return whether two runs by fork yield the same samples.

    If they do not, the loader draws samples or orders shards at random.
    """
    columns = _identifying_columns(forked_again, forked, unique_keys=unique_keys)
    return bool(columns) and Counter(_sample_ids(forked_again, columns)) == Counter(
        _sample_ids(forked, columns)
    )


def _identifying_columns(
    forked_again: LoaderRun, forked: LoaderRun, *, unique_keys: bool
) -> tuple[str, ...]:
    """Return the columns that identify samples in two runs by fork.

    There are none if one of the runs did not read everything.
    """
    for run in (forked_again, forked):
        if run.status != "ended" or not all(run.complete):
            return ()
    return identifying_columns(forked_again.rows, forked.rows, unique_keys=unique_keys, whole=True)


def _sample_ids(run: LoaderRun, columns: Sequence[str]) -> _SampleIds:
    return [sample for epoch in run.sample_ids(columns) for sample in epoch]


def _failures(run: LoaderRun) -> list[str]:
    """Return why a run failed; none if it did not."""
    if run.status == "ended":
        return []
    if run.lacks_main_guard:
        return [
            'a worker imports the script, which starts processes again: put that under if __name__ == "__main__"'
        ]
    if run.unpicklable:
        return list(run.unpicklable)
    line = run.facts.lines.get("reads", "")
    if run.status == "hung" and line:
        return [f"{line}: {run.failure}"]
    return [run.failure]


def _difference(forked: _SampleIds, other: _SampleIds, *, same_order: bool) -> str:
    """Return how the samples of a run differ from those by fork; "" if they do not.

    ``same_order``: two runs by fork give the same order.
    """
    missing = (Counter(forked) - Counter(other)).total()
    additional = (Counter(other) - Counter(forked)).total()
    if missing or additional:
        return f"other samples than by {METHODS[0]}: {missing:,} are missing and {additional:,} are new"
    if same_order and forked != other:
        return f"another order than by {METHODS[0]}"
    return ""


def _missing_globals(facts: LoaderFacts, text: str, methods: Sequence[str]) -> str:
    """Return a text on globals that a spawned worker lacks.

    Returns "" if they cannot be the reason why some methods fail.
    """
    if not facts.set_globals or METHODS[0] in methods or "pickled" in text or "__main__" in text:
        return ""
    line = f" ({facts.lines['sets']})" if facts.lines["sets"] else ""
    names = enumeration(facts.set_globals)
    return f"; making the loader sets the global {names}{line}, which a worker that is not forked lacks"
