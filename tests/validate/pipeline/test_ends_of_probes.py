"""Pipelines whose process dies, or for which this machine is not enough."""

import errno
from pathlib import Path

import pytest

from tests.validate.pipeline.really import least, scanned
from tests.validate.pipeline.test_probe_pipeline import write
from wdsflow.scan.evidence import Evidence, ScanOptions
from wdsflow.validate.pipeline.fates import Prober
from wdsflow.validate.pipeline.load_pipeline import PipelineError
from wdsflow.validate.pipeline.probe_pipeline import ProbeLimits, probe_pipeline
from wdsflow.validate.pipeline.probe_process import ProbeProcess
from wdsflow.validate.pipeline.probe_samples import TinyTars
from wdsflow.validate.tracing import meter
from wdsflow.validate.tracing.meter import machine_fault
from wdsflow.validate.verdicts.verdict import Verdict

HOSTILE = Path(__file__).parent / "hostile_pipelines.py"
GPU = "this machine has no GPU"


def judged(name: str, folder: Path, samples: int = 8) -> Verdict:
    url = write(folder / "0.tar", samples)
    return probe_pipeline(f"{HOSTILE}:{name}", *scanned([url]), limits=ProbeLimits(per_shape=1))


def test_samples_before_a_process_dies_count_and_the_sample_at_which_it_died_is_named(tmp_path: Path) -> None:
    verdict = judged("dies_at_five", tmp_path)

    assert (verdict.outcome, least(verdict), verdict.usable) == ("crashes", 5, 5)
    assert verdict.reasons[0].key == "000005"
    assert "map(decode) ends its process" in verdict.reasons[0].message
    assert "killed by SIGSEGV" in verdict.reasons[0].message


def test_a_sample_at_which_a_generator_ends_its_process_is_named_by_its_place(tmp_path: Path) -> None:
    urls = [write(tmp_path / f"{number}.tar", 8, start=8 * number) for number in range(3)]
    limits = ProbeLimits(per_shape=1, samples=1)

    verdict = probe_pipeline(f"{HOSTILE}:dies_at_twelve", *scanned(urls), limits=limits)

    assert (verdict.outcome, least(verdict), verdict.usable) == ("crashes", 12, 12)
    assert (verdict.reasons[0].key, verdict.reasons[0].shard) == ("000012", urls[1])
    assert "exit status 9" in verdict.reasons[0].message


def test_after_three_samples_that_end_their_process_no_more_are_tried(tmp_path: Path) -> None:
    url = write(tmp_path / "0.tar", 8)
    with ProbeProcess(f"{HOSTILE}:dies") as process:
        prober = Prober(
            process, TinyTars(tmp_path, allow_pipe=False), Evidence("full"), ScanOptions("full"), ProbeLimits()
        )
        runs = prober._alone(prober.tars.places_in(url))

    assert [run.died for run in runs.values()] == [True] * 3


def test_a_pipeline_that_ends_its_process_while_it_is_built_cannot_be_built(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be built: the process ended with exit status 5"):
        judged("dies_while_built", tmp_path)


@pytest.mark.parametrize("name", ["on_a_gpu", "asserts_a_gpu"])
def test_no_sample_is_blamed_for_a_gpu_that_this_machine_lacks(name: str, tmp_path: Path) -> None:
    verdict = judged(name, tmp_path)

    assert (verdict.outcome, least(verdict), verdict.usable) == ("not known", 0, 8)
    assert [(reason.slug, reason.count, reason.key) for reason in verdict.reasons] == [("machine", 0, None)]
    assert f"{GPU}: validate where it will train" in verdict.reasons[0].message
    assert "hostile_pipelines.py:" in verdict.reasons[0].message
    assert not verdict.advice


def test_no_sample_is_blamed_for_memory_that_this_machine_lacks(tmp_path: Path) -> None:
    verdict = judged("short_of_memory", tmp_path)

    assert verdict.outcome == "not known"
    assert least(verdict) <= 3
    assert verdict.usable == 8
    assert {reason.slug for reason in verdict.reasons} == {"machine"}


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (RuntimeError("No CUDA GPUs are available"), GPU),
        (AssertionError("Torch not compiled with CUDA enabled"), GPU),
        (ImportError("libcuda.so.1: cannot open shared object file"), GPU),
        (KeyError("gpu"), ""),
        (ValueError("no caption"), ""),
        (MemoryError(), "it needs more memory than it may take on this machine"),
        (OSError(errno.ENOMEM, "x"), "it needs more memory than it may take on this machine"),
        (OSError(errno.ENOSPC, "x"), "this machine has no space left on its disk"),
        (OSError(errno.ENOENT, "x"), ""),
    ],
)
def test_errors_about_the_machine_are_told_from_those_about_samples(
    error: Exception, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter, "_has_gpu", lambda: False)
    assert machine_fault(error) == fault

    wrapped = RuntimeError("in stage 3")
    wrapped.__cause__ = error
    assert machine_fault(wrapped) == fault


def test_where_there_is_a_gpu_an_error_of_it_is_that_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "_has_gpu", lambda: True)
    assert machine_fault(RuntimeError("CUDA error: invalid argument")) == ""
