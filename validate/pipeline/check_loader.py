"""Will a loader resume, start its workers by any method, and split? ``check_loader`` answers by runs of it."""

import io
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from wdsflow.scan.evidence import Evidence, ScanOptions
from wdsflow.text.words import how_many

from ..verdicts.check_result import Check, CheckResult
from .check_fork import check_fork
from .check_resume import check_resume
from .check_workers import check_workers
from .load_pipeline import PipelineError
from .loader_process import LoaderRequest, LoaderRun, LoaderRuns
from .probe_samples import SamplePlace, TinyTars

_MOST_BYTES, _MOST_SAMPLES = 64 << 20, 1000  # of a set that is read as it is
_SHARDS, _EACH, _MORE = 8, 32, 256  # copies otherwise: shards, samples in each, and if these make few batches
_FEW = 8  # items of an epoch
_CLONED = 3  # the sample of which copies are made: the first is often odd
_CLONES = 16  # copies of one sample in a shard


class _Set(NamedTuple):
    urls: tuple[str, ...]
    keys: frozenset[str]
    unique: bool
    note: str


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
    with tempfile.TemporaryDirectory(prefix="wdsflow-check-") as folder:
        tars = TinyTars(Path(folder), allow_pipe=options.allow_pipe)
        runs = LoaderRuns(spec, patience)
        some = _some_samples(evidence, tars, _EACH)
        epochs = 3 if "resume" in checks else 1
        request = LoaderRequest(some.urls, epochs=epochs, keys=some.keys)
        base = runs.run(request)
        if base.how == "ended" and some.note and sum(map(len, base.epochs[:1])) < _FEW:
            some = _some_samples(evidence, tars, _MORE)
            request = LoaderRequest(some.urls, epochs=epochs, keys=some.keys)
            base = runs.run(request)
        if base.how == "ended" and not base.rows:
            raise PipelineError(f"{spec} gives no sample: wdsflow validate --pipeline {spec} without --check shows why")
        found = [_answer(check, runs, request, base, some, tars) for check in checks if base.how == "ended"]
        if base.how != "ended" and "fork" in checks and base.facts.workers:  # perhaps it needs another start method
            found = [check_fork(runs, request, base, unique_keys=some.unique)]
            if len(found[0].faults) != 1 or "fork, spawn and forkserver" in found[0].faults[0].message:
                found = []
            else:
                why = f"it does not run as it is: {base.failure}"
                found += [CheckResult(each, why, judged=False) for each in checks if each != "fork"]
        if not found:
            raise PipelineError(f"{spec} does not run: {base.failure}")
        return [replace(each, notes=tuple(filter(None, (*each.notes, some.note)))) for each in found]


def _answer(
    check: Check, runs: LoaderRuns, request: LoaderRequest, base: LoaderRun, some: _Set, tars: TinyTars
) -> CheckResult:
    """Return the answer to one question, by runs of a loader whose undisturbed run is known."""
    if check == "resume":
        return check_resume(runs, request, base, unique_keys=some.unique)
    if check == "fork":
        return check_fork(runs, request, base, unique_keys=some.unique)
    rows = max(len(item) for item in base.epochs[0])
    return check_workers(runs, request, base, _clones(some, tars, 2 * rows), unique_keys=some.unique)


def _some_samples(evidence: Evidence, tars: TinyTars, each: int) -> _Set:
    """Return shards that a loader reads in seconds: all of a small set, otherwise copies of the first samples."""
    shards = [shard for shard in evidence.shards if shard.error is None]
    size = sum(shard.size or _MOST_BYTES + 1 for shard in shards)
    local = not any("://" in shard.url or shard.url.startswith("pipe:") for shard in shards)
    places = [tars.first_in(shard.url, each) for shard in shards[:_SHARDS]]
    if local and size <= _MOST_BYTES and evidence.samples <= _MOST_SAMPLES:
        keys = [place.key for shard in shards for place in tars.places_in(shard.url)]
        return _Set(tuple(shard.url for shard in shards), frozenset(keys), len(set(keys)) == len(keys), "")
    urls = [tars.tar(*some) for some in places if some]
    keys = [place.key for some in places for place in some]
    note = f"the loader was run over copies of {how_many(len(keys), 'sample')} from {how_many(len(urls), 'shard')}"
    return _Set(tuple(url for url in urls if url), frozenset(keys), len(set(keys)) == len(keys), note)


def _clones(some: _Set, tars: TinyTars, least: int) -> list[str]:
    """Return shards whose samples are copies of one sample under other keys."""
    places = tars.first_in(some.urls[0], _CLONED)
    path = tars.tar(places[-1]) if places else None
    if path is None:
        raise PipelineError(f"no sample of {some.urls[0]} can be copied: leave this shard out")
    return [_cloned(path, places[-1], tars, number * 1000, max(_CLONES, least)) for number in range(4)]


def _cloned(path: str, place: SamplePlace, tars: TinyTars, start: int, count: int) -> str:
    file = io.BytesIO()
    with tarfile.open(path) as one, tarfile.open(fileobj=file, mode="w") as tar:
        members = [(member.name, data.read()) for member in one if (data := one.extractfile(member))]
        for number in range(start, start + count):
            key = f"{number:0{len(place.key)}d}" if place.key.isdecimal() else f"{place.key}-{number}"
            for name, content in members:
                member = tarfile.TarInfo(key + name[len(place.key) :])
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return tars.write(file.getvalue(), f"{start:06d}.tar")
