"""Pipelines as people write them on damaged sets, and hostile ones."""

import time
from pathlib import Path

import psutil
import pytest

from tests.validate.pipeline import wild_pipelines
from tests.validate.pipeline.really import differences, least, scanned
from tests.validate.pipeline.test_probe_pipeline import write
from wdsflow.validate.pipeline.load_pipeline import PipelineError
from wdsflow.validate.pipeline.probe_pipeline import ProbeLimits, probe_pipeline
from wdsflow.validate.verdicts.verdict import Verdict

HERE = Path(__file__).parent
QUICK = ProbeLimits(seconds=1.0, first_run=3.0, per_shape=1, whole_seconds=5.0)

pytestmark = pytest.mark.deep


@pytest.mark.webdataset
@pytest.mark.parametrize("name", wild_pipelines.NAMES)
def test_the_range_holds_what_really_comes_out(name: str, tmp_path: Path) -> None:
    assert list(differences(name, range(100, 112), tmp_path, module="wild_pipelines")) == []


def judged(name: str, folder: Path) -> Verdict:
    url = write(folder / "0.tar", 6)
    return probe_pipeline(f"{HERE / 'hostile_pipelines.py'}:{name}", *scanned([url]), limits=QUICK)


def test_one_that_is_not_built_in_time_is_not_judged(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="building the pipeline took longer than 3 s"):
        judged("hangs_while_built", tmp_path)


@pytest.mark.parametrize("name", ["sleeps", "spins"])
def test_one_that_hangs_is_ended_at_its_limit(name: str, tmp_path: Path) -> None:
    started = time.monotonic()

    assert judged(name, tmp_path).outcome == "stalls"
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    ("name", "said"),
    [("exits", "SystemExit: 3"), ("dies", "exit status 5")],
)
def test_one_that_ends_its_process_is_a_crash(name: str, said: str, tmp_path: Path) -> None:

    verdict = judged(name, tmp_path)
    assert verdict.outcome == "crashes"
    assert said in verdict.reasons[0].message


@pytest.mark.parametrize("name", ["prints", "forks", "leaves_home"])
def test_one_that_prints_or_forks_is_counted_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    before = set(psutil.pids())

    verdict = judged(name, tmp_path)
    assert (verdict.usable, least(verdict)) == (6, 6)
    alive = [each for each in psutil.process_iter(["cmdline"]) if each.pid not in before]
    left = [each for each in alive if "hostile_pipelines" in " ".join(each.info["cmdline"] or [])]
    assert not psutil.wait_procs(left, timeout=20)[1]  # killed ones take a moment to go


@pytest.mark.parametrize(("name", "said"), [("needs_a_gpu", "NVIDIA driver"), ("eats_memory", "MemoryError")])
def test_what_this_machine_lacks_decides_nothing(name: str, said: str, tmp_path: Path) -> None:
    verdict = judged(name, tmp_path)
    assert verdict.outcome == "not known"
    assert said in str(verdict.reasons)
    assert "validate where it will train" in str(verdict.reasons)
