"""Whatever a verdict says, some finding says why: on shard sets that are hurt in every known way."""

from pathlib import Path

import pytest

from tests.validate.rules.build import context_of
from tests.validate.rules.cases import READERS
from wdsflow.validate.conformance.generate import make_set
from wdsflow.validate.rules.engine import run_rules
from wdsflow.validate.scan import scan_shard
from wdsflow.validate.scan_options import ScanOptions

# The later ones once went unexplained.
SEEDS = [*range(20), 68, 77, 217, 252, 274, 282, 549, 722]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_lost_is_explained(seed: int, tmp_path: Path):
    urls = make_set(seed, tmp_path).urls
    shards = [scan_shard(url, ScanOptions("full", (), 25_000_000)) for url in urls]
    for reader in READERS:
        context = context_of(shards, [reader], "full")
        verdict = context.verdicts[0]
        findings, _ = run_rules(context, ["W", "F", "I"])
        severities = {finding.severity for finding in findings}

        assert verdict.outcome == "trains" or "error" in severities, (reader, verdict, findings)
        assert verdict.usable == verdict.samples or severities & {"error", "warning"}, (reader, verdict, findings)
        for finding in findings:
            assert finding.message.isprintable()
            assert finding.count > 0
            assert finding.rate is None or 0 < finding.rate <= 1
            assert set(finding.consumers) <= {reader}
