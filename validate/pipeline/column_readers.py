"""Pipelines that read through Hugging Face datasets or Ray Data: what these do to rows is known without a run."""

from wdsflow.readers import READERS, scan_options
from wdsflow.readers.base import Options
from wdsflow.scan.evidence import Evidence, ScanOptions
from wdsflow.scan.scan_pool import scan_shards

from ..verdicts.verdict import Reason, judge
from .fates import Estimate, Prober
from .probe_child import ProbeRun
from .probe_samples import place_of, places_in

_FIRST = 5  # samples from which datasets makes its columns


def leave_open(found: Estimate, name: str, prober: Prober, evidence: Evidence, options: ScanOptions) -> None:
    """Leave the number open for what the reader of that name may refuse, and try the sample that it surely refuses."""
    found.open_below("it makes columns from the first samples, and may refuse others")
    refused = _refused_row(name, evidence, options)
    if refused is not None:
        run = _tried_row(prober, evidence.shards[0].url, options, refused)
        found.crash = found.crash or run
        found.doubts.append(f"--for {name} ends with an exception: {refused.message}")


def _refused_row(name: str, evidence: Evidence, options: ScanOptions) -> Reason | None:
    """Return at which sample the reader of that name raises; None if it takes all, as far as a scan tells."""
    reader = READERS[name](Options())
    urls = [shard.url for shard in evidence.shards]
    own = scan_options(evidence.level, [reader], urls, allow_pipe=options.allow_pipe)
    verdict = judge(Evidence(evidence.level, scan_shards(urls, own)), reader)
    return verdict.reasons[0] if verdict.outcome == "crashes" and verdict.reasons else None


def _tried_row(prober: Prober, first: str, options: ScanOptions, reason: Reason) -> ProbeRun | None:
    """Return the run of a pipeline that ends with an exception at a sample after the first ones of a set; None if none does."""
    if reason.shard is None or reason.offset is None:
        return None
    refused = place_of(places_in(reason.shard, allow_pipe=options.allow_pipe), reason.offset)
    if refused is None:
        return None
    places = dict.fromkeys(places_in(first, allow_pipe=options.allow_pipe)[:_FIRST])
    places[refused] = None
    path = prober.tars.tar(*places)
    run = None if path is None or prober.patience <= 0 else prober.run([path])
    return run if run is not None and run.how == "raised" else None
