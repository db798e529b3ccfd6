"""Will a loader resume, start its workers by any method, and split? ``check_loader`` answers by runs of it."""

from collections.abc import Sequence
from dataclasses import replace

from wdsflow.scan.evidence import Evidence, ScanOptions
from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.text.words import how_many, listed

from ..verdicts.check_result import Check, CheckResult
from .check_fork import METHODS, check_fork
from .check_resume import check_resume
from .check_workers import check_workers
from .load_pipeline import PipelineError
from .loader_process import LoaderRequest, LoaderRuns
from .sample_copies import END, TinyTars, numbered_keys, renamed

# Of a set that is read as it is.
_MOST_BYTES, _MOST_SAMPLES = 64 << 20, 1000
# Copies otherwise: shards, samples in each, and if these make few batches.
_SHARDS, _EACH, _MORE = 8, 32, 256
# Items of an epoch.
_FEW = 8
# The sample of which copies are made: the first is often odd.
_CLONED = 3
# Copies of one sample in a shard, at least.
_CLONES = 16
_ANSWERS = {"resume": check_resume, "fork": check_fork, "workers": check_workers}


def check_loader(
    spec: str, checks: Sequence[Check], evidence: Evidence, options: ScanOptions, patience: float = 60.0
) -> list[CheckResult]:
    """Return the answers to some questions about a loader, in the order of the questions.

    Args:
        spec: ``module:object`` or ``train.py:object``, see ``find`` and ``build``.
        checks: the questions.
        evidence: of the scan of all shards.
        options: of that scan.
        patience: seconds without a sample after which a run of the loader hangs.

    Raises:
        PipelineError: the loader cannot be found, imported, built or read.
    """
    with scratch("check") as folder, LoaderRuns(spec, patience) as runs:
        tars = TinyTars(folder, allow_pipe=options.allow_pipe)
        for each in (_EACH, _MORE):
            request, note = _request(evidence, tars, each)
            request = replace(request, epochs=3 if "resume" in checks else 1)
            base = runs.run(request)
            if base.how != "ended" or not note or sum(map(len, base.epochs[:1])) >= _FEW:
                break
        if base.how == "ended" and not base.rows:
            raise PipelineError(f"{spec} gives no sample: wdsflow validate --pipeline {spec} without --check shows why")
        if base.how == "ended" and "workers" in checks:
            rows = max(len(item) for item in base.epochs[0])
            request = replace(
                request, clones=tuple(_clones(Shard.stored(request.urls[0]), tars, max(_CLONES, 2 * rows)))
            )
        found = [_ANSWERS[check](runs, request, base) for check in checks if base.how == "ended"]
        # Perhaps it needs another start method.
        if base.how != "ended" and "fork" in checks and base.facts.workers:
            found = [check_fork(runs, request, base)]
            if len(found[0].faults) != 1 or listed(list(METHODS)) in found[0].faults[0].message:
                found = []
            else:
                why = f"it does not run as it is: {base.failure}"
                found += [CheckResult(each, why, judged=False) for each in checks if each != "fork"]
        if not found:
            raise PipelineError(f"{spec} does not run: {base.failure}")
        return [replace(each, notes=tuple(filter(None, (*each.notes, note)))) for each in found]


def _request(evidence: Evidence, tars: TinyTars, each: int) -> tuple[LoaderRequest, str]:
    """Return shards that a loader reads in seconds: all of a small set, otherwise copies of the first samples, with a note."""
    shards = [shard for shard in evidence.shards if shard.error is None]
    size = sum(shard.size or _MOST_BYTES + 1 for shard in shards)
    local = not any(shard.url.path is None for shard in shards)
    if local and size <= _MOST_BYTES and evidence.samples <= _MOST_SAMPLES:
        places, note = [tars.places_in(shard.url) for shard in shards], ""
        urls: tuple[str, ...] = tuple(shard.url for shard in shards)
    else:
        first = [tars.first_in(shard.url, each) for shard in shards[:_SHARDS]]
        copied = {url: some for some in first if some and (url := tars.tar(*some))}
        urls, places = tuple(copied), list(copied.values())
        samples = how_many(sum(map(len, places)), "sample")
        note = f"the loader was run over copies of {samples} from {how_many(len(urls), 'shard')}"
    found = [place.key for some in places for place in some]
    keys = tuple(tuple(place.key for place in some) for some in places)
    unique, most = len(set(found)) == len(found), 4 * max(500, len(found))
    return LoaderRequest(urls, most=most, keys=frozenset(found), shard_keys=keys, unique_keys=unique), note


def _clones(url: Shard, tars: TinyTars, count: int) -> list[str]:
    """Return shards whose samples are copies of one sample under other keys."""
    places = tars.first_in(url, _CLONED)
    members = tars.members(places[-1]) if places else []
    if not members:
        raise PipelineError(f"no sample of {url} can be copied: leave this shard out")
    urls = []
    for start in range(0, 4000, 1000):
        keys = numbered_keys(places[-1].key, count, start)
        copies = b"".join(renamed(key, members) for key in keys)
        urls.append(tars.write(copies + END, f"{start:06d}.tar"))
    return urls
