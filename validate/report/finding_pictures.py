"""Some samples in which rules about fields and images found something, for a page."""

from collections.abc import Sequence

from wdsflow.pages.page_samples import samples_around
from wdsflow.pages.sample_views import SampleView, sample_view
from wdsflow.shards.shard import Shard

from .finding_groups import FindingGroup

# Samples of a page, and of a rule.
_MOST_PICTURES, _MOST_OF_RULE = 48, 4
# The first letters of the codes of rules about fields and images.
_SAMPLE_RULES = ("F", "I")


def pictures(groups: Sequence[FindingGroup]) -> dict[str, list[SampleView]]:
    """Return some samples with findings about fields and images, by rule code."""
    views: dict[str, list[SampleView]] = {}
    for url, codes_of in _locations(groups).items():
        # A shard is read once for all rules.
        for offset, sample in samples_around(Shard.from_text(url), codes_of):
            for code in codes_of[offset]:
                views.setdefault(code, []).append(sample_view(sample))
    return views


def _locations(groups: Sequence[FindingGroup]) -> dict[str, dict[int, list[str]]]:
    """Return shard -> offset of a member -> codes of the rules with findings there.

    Offsets are in bytes.
    """
    locations: dict[str, dict[int, list[str]]] = {}
    remaining = _MOST_PICTURES
    for group in groups:
        if not group.code.startswith(_SAMPLE_RULES):
            continue
        located = [
            finding
            for finding in group.findings
            if finding.shard is not None and finding.offset is not None
        ]
        for finding in located[: min(_MOST_OF_RULE, remaining)]:
            assert finding.shard is not None
            assert finding.offset is not None
            # Only on this machine.
            if Shard.from_text(finding.shard).path is None:
                continue
            locations.setdefault(finding.shard, {}).setdefault(finding.offset, []).append(
                group.code
            )
            remaining -= 1
    return locations
