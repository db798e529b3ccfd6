"""The effect of ``--val-data`` on OpenCLIP's evaluation."""

import os
from itertools import islice

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.open_clip_33 import OpenClip33
from wdsflow.readers.open_clip.startup import openclip_urls
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.text.escape import escape

from ..verdicts.reader_pass import run_pass
from ..verdicts.wording import no_verdict_text, unreadable_text

_MOST_URLS = 100_000


def judge_validation(arguments: Arguments, reader: OpenClip33, evidence: Evidence | None) -> tuple[str | None, bool]:
    """Return what is wrong with the validation shards, None if nothing is, and whether that ends the training.

    Only rank 0 reads them, each worker its share; an empty share just ends. If no sample arrives at all, 3.3.0 raises
    from ``torch.cat([])`` after the first epoch while the other ranks wait; 4.x reports no figures.
    """
    if not arguments.val_data or arguments.val_frequency <= 0:
        return None, False
    if evidence is None:
        why = _all_missing(arguments.val_data)
    else:
        split = max(1, arguments.workers)
        usable = sum(run_pass(reader, evidence.shards[worker::split]).usable for worker in range(split))
        why = "" if usable else _without_samples(evidence)
    if not why:
        return None, False
    if reader.name == "open-clip-4":
        return f"{why}: evaluation reports no figures, silently", False
    wait = " while the other ranks wait" if arguments.world_size > 1 else ""
    return (
        f"{why}: rank 0 crashes after epoch {min(arguments.val_frequency, arguments.epochs) - 1} (torch.cat of nothing){wait}",
        True,
    )


def _without_samples(evidence: Evidence) -> str:
    if nothing := no_verdict_text(evidence.shards):
        return f"--val-data: {nothing}"
    if not evidence.samples:
        first = next(shard for shard in evidence.shards if not shard.is_whole)
        return f"--val-data: no sample in {escape(first.url, 1_000)}: {escape(first.stop.detail, 300)}"
    return f"none of the {evidence.samples:,} samples of --val-data is usable"


def _all_missing(val_data: str) -> str:
    try:
        urls = list(islice(openclip_urls(val_data), _MOST_URLS))
    except (KeyError, ValueError):
        return "--val-data cannot be expanded"
    if any(":" in url or os.path.exists(url) for url in urls):
        return ""
    missing = [ShardEvidence(url, error="missing") for url in urls]
    return f"--val-data: {unreadable_text(missing)}"
