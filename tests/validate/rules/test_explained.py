"""Every verdict is explained by some finding.

Tested on shard sets with every known damage.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.generate import make_set
from tests.validate.rules.build import context_of
from wdsflow.readers import READERS, DatasetsTables, scan_options
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.source.base import single_shard
from wdsflow.validate.catalog.run_rules import run_rules

# The later ones once went unexplained.
SEEDS = [*range(20), 68, 77, 217, 252, 274, 282, 549, 722]


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_lost_is_explained(seed: int, tmp_path: Path):
    urls = make_set(seed, tmp_path).urls
    shards = [
        scan_shard(
            single_shard(url),
            replace(
                scan_options("full", [DatasetsTables()], list(map(single_shard, urls))),
                max_image_pixels=25_000_000,
            ),
        )
        for url in urls
    ]
    for reader in READERS:
        context = context_of(shards, [reader], "full")
        verdict = context.verdicts[0]
        findings, _ = run_rules(context, ["W", "F", "I"])
        severities = {finding.severity for finding in findings}

        # Of marks that a writer set himself no rule speaks.
        unmarked = {
            reason: count for reason, count in verdict.lost.items() if reason != "marked-bad"
        }
        worst = max(unmarked.values(), default=0) > 0.05 * verdict.samples
        assert (
            verdict.outcome not in ("crashes", "stalls") and not worst
        ) or "error" in severities, (reader, verdict)
        assert not unmarked or severities & {"error", "warning"}, (reader, verdict, findings)
        for finding in findings:
            assert finding.message.isprintable()
            assert finding.count > 0
            assert finding.rate is None or 0 < finding.rate <= 1
            assert set(finding.readers) <= {reader}
