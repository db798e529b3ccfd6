"""Judges whether the shards of ``--val-data`` can be evaluated.

If not, it forecasts what happens to the training.
"""

import os
from itertools import islice

from wdsflow.readers.open_clip.arguments import Arguments, names_shards
from wdsflow.readers.open_clip.url_expansion import openclip_urls
from wdsflow.readers.open_clip.versions import OpenClip33
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.shards.source.base import single_shard
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from ..verdicts.reader_pass import run_pass
from ..verdicts.wording import no_verdict_text, unreadable_text, why_unread

# Of a pattern that is expanded.
_MOST_URLS = 100_000
# Share of the validation samples.
_MOST_LOST = 0.05


def judge_validation(
    arguments: Arguments, reader: OpenClip33, evidence: Evidence | None
) -> tuple[str | None, bool]:
    """Return the problem with the validation shards, and whether it ends the training.

    The problem is None if there is none.

    Only rank 0 reads them, each worker its share; an empty share just ends. If no sample arrives at
    all, 3.3.0 raises from ``torch.cat([])`` after the first epoch while the other ranks wait; 4.x
    reports no figures. Shards that cannot be read are passed over.
    """
    if not arguments.val_data or arguments.val_frequency <= 0:
        return None, False
    usable = 0
    if evidence is None:
        why = _all_missing(arguments.val_data, arguments.dataset_type)
    else:
        workers = max(1, arguments.workers)
        for worker in range(workers):
            usable += run_pass(reader, evidence.shards[worker::workers]).usable
        why = _partly_missing(evidence, usable) if usable else _without_samples(evidence)
    if not why:
        return None, False
    if usable:
        return f"{why}: the figures are those of the rest, silently", False
    if not reader.empty_evaluation_raises:
        return f"{why}: evaluation reports no figures, silently", False
    wait = " while the other ranks wait" if arguments.world_size > 1 else ""
    epoch = min(arguments.val_frequency, arguments.epochs) - 1
    return f"{why}: rank 0 crashes after epoch {epoch} (torch.cat of nothing){wait}", True


def _partly_missing(evidence: Evidence, usable: int) -> str:
    """Return which part of the validation shards is not evaluated; "" if that is all of them."""
    unread = [shard for shard in evidence.shards if shard.error is not None]
    if unread:
        number = f"{len(unread):,} of {how_many(len(evidence.shards), 'shard')} of --val-data"
        return f"{number} cannot be read ({why_unread(unread[0])})"
    lost = evidence.samples - usable
    if lost > _MOST_LOST * evidence.samples:
        return f"{lost:,} of {how_many(evidence.samples, 'sample')} of --val-data are not usable"
    return ""


def _without_samples(evidence: Evidence) -> str:
    nothing = no_verdict_text(evidence.shards)
    if nothing:
        return f"--val-data: {nothing}"
    if not evidence.samples:
        first = next(shard for shard in evidence.shards if not shard.is_whole)
        url = escape(first.url, 1_000)
        return f"--val-data: no sample in {url}: {escape(first.stop.detail, 300)}"
    return f"none of the {evidence.samples:,} samples of --val-data is usable"


def _all_missing(val_data: str, dataset_type: str) -> str:
    """Return that no file of --val-data is there, "" if one is."""
    urls = [val_data]
    # OpenCLIP does not expand the name of a csv. Others can be expanded: the start was simulated.
    if names_shards(val_data, dataset_type):
        urls = list(islice(openclip_urls(val_data), _MOST_URLS))
    if any(":" in url or os.path.isfile(url) for url in urls):
        return ""
    missing = [ShardEvidence(single_shard(url), error="missing") for url in urls]
    return f"--val-data: {unreadable_text(missing)}"
