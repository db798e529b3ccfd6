"""A few shards whose JSON is read, where captions should or may be."""

from collections.abc import Collection, Sequence

from wdsflow.joining.joined_scan import JoinedScan
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.layouts import layout_of
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_pool import ScanOne, scan_shards

from .judged_data import JudgedData

_JSON = frozenset({"json", "jsn"})


def preview_json(judged: JudgedData, fatal_codes: Collection[str]) -> list[ShardEvidence]:
    """Return the evidence of the first, the middle and the last shard with JSON.

    Only the first one if they are on a server, none if it would not help.

    ``fatal_codes``: of the findings for which training would not begin.
    """
    if fatal_codes:
        lacks_field = "F101" in fatal_codes
        if not lacks_field:
            return []
    elif not _captions_only_in_json(judged):
        return []
    shards = judged.context.evidence.shards
    with_json = [shard for shard in shards if not _JSON.isdisjoint(shard.fields)]
    if not with_json:
        return []
    last = len(with_json) - 1
    numbers = sorted({0, len(with_json) // 2, last})
    # One shard of a server, which takes time.
    if "://" in with_json[0].url:
        numbers = [0]
    urls = [with_json[number].url for number in numbers]
    scan: ScanOne = scan_shard if judged.join is None else JoinedScan(judged.join)
    options = ScanOptions("headers", allow_pipe=judged.options.allow_pipe)
    return scan_shards(urls, options, jobs=1, scan_functions=[scan] * len(urls))


def _captions_only_in_json(judged: JudgedData) -> bool:
    """Return whether no shard has a text member that the run takes captions from."""
    fields = {name for shard in judged.context.evidence.shards for name in shard.fields}
    for source in judged.captions.sources:
        if isinstance(source, str) and source in fields:
            return False
    return True


def other_layout(judged: JudgedData, preview: Sequence[ShardEvidence]) -> list[str]:
    """Return a line on a layout that is visible only in the JSON.

    Findings already report layouts that are visible in names.
    """
    layout = layout_of(preview)
    if layout.is_image_text or not layout_of(judged.context.evidence.shards).is_image_text:
        return []
    return [f"the layout is {layout.text()}: wdsflow train feeds image-text pairs only"]
