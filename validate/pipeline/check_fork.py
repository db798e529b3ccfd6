"""Do a loader's workers start by fork, spawn and forkserver, and give the same samples?"""

from collections import Counter
from dataclasses import replace

from wdsflow.text.words import listed

from ..finding import Severity
from ..verdicts.check_result import CheckResult, LoaderFault
from .loader_process import LoaderRequest, LoaderRun, LoaderRuns
from .rows import identifying, identity

_CODE = "P329"
METHODS = ("fork", "spawn", "forkserver")


def check_fork(runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> CheckResult:
    """Return whether a loader works with each start method; a loader without workers is tried with two."""
    facts = base.facts
    if facts.own_method:
        return CheckResult("fork", "its DataLoader has its own multiprocessing_context: no other method is used")
    if not facts.can_have_workers:
        return CheckResult("fork", "no DataLoader is found in it, so no start method was tried", judged=False)
    workers = facts.workers or 2
    one = replace(request, epochs=1, workers=None if facts.workers else workers)
    again, *found = runs.run_all([replace(one, method=method) for method in (METHODS[0], *METHODS)])
    if any("context has already been set" in run.error for run in found):
        return CheckResult("fork", "it sets the start method itself: no other is used")
    whole = again.how == found[0].how == "ended" and all([*again.whole, *found[0].whole])
    columns = identifying(again.rows, found[0].rows, unique_keys=request.unique_keys, whole=True) if whole else ()
    alike, *ids = ([identity(row, columns) for row in run.rows] for run in (again, *found))
    # Otherwise it draws samples, or orders shards, by chance.
    same = bool(columns) and Counter(alike) == Counter(ids[0])
    by_text: dict[str, list[str]] = {}
    for method, run, theirs in zip(METHODS, found, ids, strict=True):
        texts = _failures(run) or (
            _differences(ids[0], theirs, ordered=alike == ids[0]) if same and all(run.whole) else []
        )
        for text in texts:
            by_text.setdefault(text, []).append(method)
    severity: Severity = "error" if facts.workers else "warning"
    if_any = "" if facts.workers else f"with num_workers={workers}, "
    faults = [
        LoaderFault(_CODE, f"{if_any}{listed(methods)}: {text}{_lacks(base, text, methods)}", severity)
        for text, methods in by_text.items()
    ]
    summary = f"the same samples by {listed(list(METHODS))}"
    if not same:
        why = f"two runs by {METHODS[0]} differ, or do not end"
        summary = f"it starts by {listed(list(METHODS))}; its samples were not compared: {why}"
    return CheckResult("fork", summary, tuple(faults))


def _failures(run: LoaderRun) -> list[str]:
    if run.how == "ended":
        return []
    if run.no_guard:
        return ['a worker imports the script, which starts processes again: put that under if __name__ == "__main__"']
    line = run.facts.lines.get("reads") if run.how == "hung" else ""
    return list(run.unpicklable) or [f"{line}: {run.failure}" if line else run.failure]


def _differences(ours: list[tuple[str, ...]], theirs: list[tuple[str, ...]], *, ordered: bool) -> list[str]:
    """Return how a run differs from the first one, by fork."""
    lacking, more = (Counter(ours) - Counter(theirs)).total(), (Counter(theirs) - Counter(ours)).total()
    if lacking or more:
        return [f"other samples than by {METHODS[0]}: {lacking:,} are missing and {more:,} are new"]
    return [f"another order than by {METHODS[0]}"] if ordered and ours != theirs else []


def _lacks(base: LoaderRun, text: str, methods: list[str]) -> str:
    """Return a text on globals that a spawned worker does not have."""
    names = base.facts.set_globals
    if not names or METHODS[0] in methods or "pickled" in text or "__main__" in text:
        return ""
    line = f" ({base.facts.lines['sets']})" if base.facts.lines["sets"] else ""
    return f"; making the loader sets the global {listed(list(names))}{line}, which a worker that is not forked lacks"
