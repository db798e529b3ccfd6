"""What is left out of batches, and which do not fit together."""

import io
from pathlib import Path

import pytest
from PIL import Image

from tests.validate.pipeline.really import jpeg, probing, scanned
from tests.validate.pipeline.test_not_known import FEW, captions
from tests.validate.pipeline.test_probe_pipeline import write
from wdsflow.scan.evidence import Evidence, Run, Runs, ShardEvidence
from wdsflow.validate.pipeline.fates import Estimate, ProbedFate, ProbedShape, ProbeLimits
from wdsflow.validate.pipeline.probe_batches import leave_out_rest
from wdsflow.validate.pipeline.probe_pipeline import probe_pipeline
from wdsflow.validate.pipeline.probe_process import ProbeRun
from wdsflow.validate.pipeline.probe_reasons import reasons_of
from wdsflow.validate.pipeline.probe_samples import SamplePlace, ShapeGroup
from wdsflow.validate.pipeline.rewire import BatchStage, PipelineFacts

HERE = Path(__file__).parent
SHARDS = [ShardEvidence(f"{number}.tar", runs=Runs(Run("a", 0, ())), samples=150) for number in range(4)]
RAISED = ProbeRun("raised")


def left(estimate: Estimate, *stages: BatchStage, drops: bool = False, **facts: object) -> Estimate:
    found = PipelineFacts(source="list", splits=["split_by_worker"], workers=max(each.workers for each in stages))
    found.batches = list(stages)
    for name, value in facts.items():
        setattr(found, name, value)
    leave_out_rest(estimate, found, SHARDS, collation_drops=drops)
    return estimate


def numbers(found: Estimate) -> tuple[int, int, int]:
    return found.least, found.likely, found.most


def test_the_last_incomplete_batch_is_left_out_and_named() -> None:
    found = left(Estimate(103, 103, 103), BatchStage(16, False, 1, "stage 2"), BatchStage(40, True, 1, "stage 3"))
    assert (numbers(found), found.rest) == ((96, 96, 96), [("stage 2", 7)])

    found = left(Estimate(103, 103, 103), BatchStage(16, False, 1, "stage 2"), BatchStage(40, False, 1, "stage 3"))
    assert (numbers(found), found.rest) == ((80, 80, 80), [("stage 2", 7), ("stage 3", 16)])

    found = left(Estimate(90, 100, 103), BatchStage(16, False, 1))
    assert (numbers(found), found.rest) == ((80, 96, 96), [])
    assert numbers(left(Estimate(103, 103, 103), BatchStage(16, False, 1), resampled=True)) == (103, 103, 103)


def test_each_worker_leaves_out_its_own_incomplete_batch() -> None:
    whole, two = Estimate(600, 600, 600), BatchStage(8, False, 2, "stage 4")
    found = left(whole, two)
    assert (numbers(found), found.rest) == ((592, 592, 592), [("stage 4", 8)])  # 300 in each of two workers

    found = left(Estimate(600, 600, 600), two, BatchStage(100, False, 1, "stage 5"))
    assert (numbers(found), found.rest[1:]) == ((500, 500, 500), [("stage 5", 92)])

    for unknown in ({"shuffled_before": True}, {"splits": []}, {"source": ""}):
        found = left(Estimate(600, 600, 600), two, **unknown)
        assert (found.least, found.most, found.rest) == (592, 600, [])
        assert found.doubts == ["each worker leaves out its last, incomplete batch"]
    found = left(Estimate(598, 598, 598), two)  # which worker has those that are lost is not known
    assert (found.least, found.most) == (584, 592)


def test_an_exception_loses_the_batch_that_was_begun() -> None:
    assert numbers(left(Estimate(70, 70, 70, crash=RAISED), BatchStage(32, True, 1))) == (64, 64, 64)
    assert numbers(left(Estimate(70, 70, 80, crash=RAISED), BatchStage(32, True, 1))) == (39, 70, 80)
    assert numbers(left(Estimate(70, 70, 70, crash=RAISED), BatchStage(32, True, 2))) == (39, 70, 70)
    assert numbers(left(Estimate(10, 10, 90, crash=RAISED), BatchStage(32, True, 1))) == (0, 10, 90)


def test_a_collate_function_that_leaves_samples_out_leaves_the_lower_end_open() -> None:
    found = left(Estimate(70, 70, 70), BatchStage(32, False, 1), drops=True)
    assert (numbers(found), found.rest) == ((39, 70, 70), [])


@pytest.mark.webdataset
def test_the_one_picture_that_fits_into_no_batch_is_found(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (50, 1)).save(buffer, "JPEG")
    url = captions(tmp_path / "0.tar", 150, {97: {"jpg": buffer.getvalue()}}, txt=b"a cat")
    evidence, options = scanned([url], "headers")

    with probing("loader_that_stacks", "user_pipelines") as process:
        whole = probe_pipeline(process, evidence, options, limits=ProbeLimits(per_shape=1))
        probed = probe_pipeline(process, evidence, options, limits=FEW)

    assert (whole.outcome, whole.usable, whole.least) == ("crashes", 96, None)  # in batches of two
    assert (probed.outcome, probed.least, probed.reasons[0].key) == ("crashes", 0, "000097")
    for verdict in (whole, probed):
        assert "stack expects each tensor to be equal size" in verdict.reasons[0].message


def test_an_exception_while_a_shuffled_loader_is_built_leaves_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    url = write(tmp_path / "0.tar", 40, missing=10, picture=jpeg())

    verdict = probe_pipeline(f"{HERE}/dataset_pipelines.py:complete_only", *scanned([url]))

    assert (verdict.outcome, verdict.usable, verdict.least) == ("crashes", 0, None)


def test_a_sample_that_is_dropped_by_chance_ends_no_shard() -> None:
    group = ShapeGroup((), 100)
    fates = {
        SamplePlace("0.tar", number, str(number)): ProbedFate(kind, ProbeRun("ended"))  # type: ignore[arg-type]
        for number, kind in enumerate(["usable", "dropped", "ends-shard", "ends-stream"])
    }
    found = Estimate(60, 70, 80, whole=True)
    for chance in (False, True):
        reasons = reasons_of(
            found, [ProbedShape(group, fates)], {}, Evidence("full"), 100, PipelineFacts(chance=chance)
        )
        assert {reason.slug for reason in reasons} >= ({"dropped"} if chance else {"ends-shard", "ends-stream"})
        assert ("ends-stream" in {reason.slug for reason in reasons}) is not chance
        assert all(reason.message.startswith("about ") for reason in reasons if reason.slug == "dropped")
