"""Checks by runs whether a loader resumes, starts its workers by any method, and splits."""

from collections.abc import Sequence
from dataclasses import replace

from wdsflow.scan.evidence import Evidence, ScanOptions
from wdsflow.shards.scratch import scratch
from wdsflow.text.words import enumeration

from ..verdicts.check_result import Check, CheckResult
from .checks.check_fork import METHODS, check_fork
from .checks.check_resume import check_resume
from .checks.check_workers import check_workers
from .loader.loader_messages import LoaderRequest, LoaderRun
from .loader.loader_runs import LoaderRuns
from .loader.loader_shards import FEWEST_SAMPLES, MORE_SAMPLES, clone_urls, shards_to_read
from .sample_copies import SmallTars
from .user_code.load_pipeline import PipelineError

# Items of an epoch that show enough.
_LEAST_ITEMS = 8
_CHECKS = {"resume": check_resume, "fork": check_fork, "workers": check_workers}


def check_loader(
    spec: str,
    checks: Sequence[Check],
    evidence: Evidence,
    options: ScanOptions,
    patience: float = 60.0,
) -> list[CheckResult]:
    """Return the answers to some questions about a loader, in the order of the questions.

    Args:
        spec: ``module:object`` or ``train.py:object``, see ``load_object`` and ``build``.
        checks: the questions.
        evidence: of the scan of all shards.
        options: of that scan.
        patience: seconds without a sample after which a run of the loader hangs.

    Raises:
        PipelineError: the loader cannot be found, imported, built or read.
    """
    with scratch("check") as folder, LoaderRuns(spec, patience) as runs:
        tars = SmallTars(folder, allow_pipe=options.allow_pipe)
        epochs = 3 if "resume" in checks else 1
        for samples_of_shard in (FEWEST_SAMPLES, MORE_SAMPLES):
            shards = shards_to_read(evidence, tars, samples_of_shard)
            request = replace(shards.request, epochs=epochs)
            base = runs.run(request)
            # A whole set has no more samples.
            if not shards.are_copies or not _has_few_items(base):
                break
        if base.status != "ended":
            results = _without_base(spec, runs, request, base, checks)
        elif not base.rows:
            raise PipelineError(
                f"{spec} gives no sample: wdsflow validate --pipeline {spec} without --check shows why"
            )
        else:
            if "workers" in checks:
                largest = max((len(item) for item in base.epochs[0]), default=1)
                request = replace(request, clone_urls=clone_urls(request.urls[0], tars, largest))
            results = [_CHECKS[check](runs, request, base) for check in checks]
        if shards.are_copies:
            results = [replace(result, notes=(*result.notes, shards.note)) for result in results]
        return results


def _has_few_items(base: LoaderRun) -> bool:
    return base.status == "ended" and sum(map(len, base.epochs[:1])) < _LEAST_ITEMS


def _without_base(
    spec: str, runs: LoaderRuns, request: LoaderRequest, base: LoaderRun, checks: Sequence[Check]
) -> list[CheckResult]:
    """Return what is wrong with a loader that runs only with another start method.

    Raises:
        PipelineError: it runs with none, or that was not asked.
    """
    error = PipelineError(f"{spec} does not run: {base.failure}")
    if "fork" not in checks or not base.facts.workers:
        raise error
    fork = check_fork(runs, request, base)
    if len(fork.faults) != 1 or enumeration(METHODS) in fork.faults[0].message:
        raise error
    summary = f"it does not run as it is: {base.failure}"
    return [
        fork,
        *(CheckResult(check, summary, judged=False) for check in checks if check != "fork"),
    ]
