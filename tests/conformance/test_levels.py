"""Reports of each level on generated shard sets.

They are compared with what OpenCLIP's own loader makes of the sets.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.conformance.compare import RealReader, RealReaders, environments
from tests.conformance.generate import make_set
from wdsflow import check
from wdsflow.readers import Options
from wdsflow.validate import Report

READER = "open-clip-3.3"
SETS = 300
MAX_LOSSES = (0.0, 0.05, 0.05, 0.3)
# Sets in which a name has taken a sample's place, or the
# end of a shard has: once each was counted wrongly.
KNOWN = (3, 7, 42, 57, 96, 145)


@pytest.fixture(scope="module")
def real(real_readers: RealReaders) -> Iterator[RealReader]:
    environment = next(each for each in environments(os.environ) if each.reader == READER)
    if environment.missing:
        pytest.skip(environment.missing)
    with real_readers.open(environment) as reader:
        yield reader


@pytest.mark.parametrize(
    "seeds",
    [
        # A set takes seconds: for all its levels repairs are advised.
        (57, 500),
        pytest.param((*KNOWN, *range(500, 500 + SETS)), marks=pytest.mark.deep),
    ],
    ids=["some", "many"],
)
def test_no_level_promises_more_than_the_loader_gives(
    seeds: tuple[int, ...], real: RealReader, tmp_path: Path
) -> None:
    wrong = []
    for seed in seeds:
        made = make_set(seed, tmp_path)
        if any(Path(url).is_dir() for url in made.urls):  # which stands for the shards in it
            continue
        result = real.read(made.urls, Options())
        usable = sum(map(len, result["keys"]))
        for level in ("names", "headers", "full"):
            max_loss = Random(seed).choice(MAX_LOSSES)
            report = check(made.urls, [READER], level=level, max_loss=max_loss, jobs=1)
            found = faults(report, usable, max_loss, stall=result["stall"])
            wrong += [f"seed {seed}, {level}, --max-loss {max_loss}: {fault}" for fault in found]
        lost = report.verdicts[0].samples - usable if report.verdicts else 0
        if lost > 0:
            # Just less than the loader loses.
            max_loss = 0.99 * lost / report.verdicts[0].samples
            report = check(made.urls, [READER], level="full", max_loss=max_loss, jobs=1)
            found = faults(report, usable, max_loss, stall=result["stall"])
            wrong += [f"seed {seed}, --max-loss {max_loss}: {fault}" for fault in found]
        made.remove()
    assert wrong == []


def faults(report: Report, usable: int, max_loss: float, *, stall: bool) -> Iterator[str]:
    """Yield what a report gets wrong.

    ``usable`` is the number of samples that the loader gave; ``stall`` is whether it hangs.
    """
    if not report.verdicts:
        if usable:
            yield f"no verdict, though {usable} samples come out"
        return
    (verdict,) = report.verdicts
    said = f"{verdict.word} {verdict.usable} of {verdict.samples}"
    if verdict.exact and (verdict.usable, verdict.outcome == "stalls") != (usable, stall):
        yield f"{said}, but {usable} come out"
    if usable > verdict.usable or usable > verdict.samples:
        yield f"up to {said}, but {usable} come out"
    if verdict.least is not None and usable < verdict.least:
        yield f"at least {verdict.least}, but {usable} come out"
    lossy = stall or verdict.samples - usable > max_loss * verdict.samples
    if lossy and (verdict.word == "trains" or (verdict.exact and report.exit_status == 0)):
        yield f"{said}, exit status {report.exit_status}, but {usable} come out"
    lost = sum(each.lost.get(READER, 0) for each in report.findings)
    if lost != verdict.samples - verdict.usable:
        yield f"{said}, and the findings add up to {lost} lost samples"
