"""Pipelines whose process dies or hangs, that harm it, or for which this machine is not enough."""

import errno
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.validate.pipeline.small_set import judged, write
from wdsflow.validate import Verdict
from wdsflow.validate.pipeline.judge_pipeline import RunLimits
from wdsflow.validate.pipeline.run import run_pipeline
from wdsflow.validate.pipeline.user_code import user_process
from wdsflow.validate.pipeline.user_code.load_pipeline import PipelineError
from wdsflow.validate.tracing import machine_faults
from wdsflow.validate.tracing.machine_faults import machine_fault

# Each starts a process that imports PyTorch.

GPU = "this machine has no GPU"
MEMORY = "it needs more memory than it may take on this machine"


# Seconds of those that hang. The others end by themselves, however busy this machine is.
HANGS = 2.0


def hostile(name: str, folder: Path, samples: int = 8, seconds: float = 60.0) -> Verdict:
    return judged(
        "hostile_pipelines", name, [write(folder / "0.tar", samples)], RunLimits(seconds=seconds)
    )


def left_processes(before: set[int]) -> list[psutil.Process]:
    alive = [each for each in psutil.process_iter(["cmdline"]) if each.pid not in before]
    left = [each for each in alive if "hostile_pipelines" in " ".join(each.info["cmdline"] or [])]
    return psutil.wait_procs(left, timeout=20)[1]  # killed ones take a moment to go


@pytest.mark.parametrize("name", ["sleeps", "spins"])
def test_one_that_hangs_is_killed_and_the_line_is_named(name: str, tmp_path: Path) -> None:
    before, started = set(psutil.pids()), time.monotonic()

    verdict = hostile(name, tmp_path, seconds=HANGS)

    assert verdict.outcome == "stalls"
    assert "hostile_pipelines.py:" in verdict.reasons[0].message
    assert time.monotonic() - started < 30
    assert not left_processes(before)


def test_one_that_is_not_built_in_time_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_pipeline, "_BUILD", 1.0)

    with pytest.raises(
        PipelineError, match=r"building the pipeline took longer than 1 s \(.*hostile_pipelines.py:"
    ):
        hostile("hangs_while_built", tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("exits", "SystemExit: 3"),
        ("dies", "ends its process (the process ended with exit status 5)"),
    ],
)
def test_one_that_ends_its_process_is_a_crash(name: str, said: str, tmp_path: Path) -> None:
    verdict = hostile(name, tmp_path)

    assert verdict.outcome == "crashes"
    assert said in verdict.reasons[0].message


@pytest.mark.webdataset
def test_samples_before_a_process_dies_count_and_the_sample_at_which_it_died_is_named(
    tmp_path: Path,
) -> None:
    verdict = hostile("dies_at_five", tmp_path)

    assert (verdict.outcome, verdict.usable, verdict.samples) == ("crashes", 5, 6)
    assert verdict.reasons[0].key == "000005"
    assert (
        "map(decode) ends its process (the process was killed by SIGSEGV"
        in verdict.reasons[0].message
    )


def test_one_that_ends_its_process_while_it_is_built_cannot_be_built(tmp_path: Path) -> None:
    with pytest.raises(
        PipelineError, match=r"cannot be built: .* ended: the process ended with exit status 5"
    ):
        hostile("dies_while_built", tmp_path)


@pytest.mark.parametrize("name", ["prints", "forks", "leaves_home", "ignores_signals"])
def test_one_that_prints_forks_or_ignores_signals_is_counted_and_leaves_nothing(
    name: str, tmp_path: Path
) -> None:
    before = set(psutil.pids())

    verdict = hostile(name, tmp_path)

    assert (verdict.outcome, verdict.usable) == ("trains", 8)
    assert not left_processes(before)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("eats_memory", "it needs more memory than it may take on this machine"),
        ("short_of_memory", "it needs more memory than it may take on this machine"),
        ("on_a_gpu", GPU),
        ("asserts_a_gpu", GPU),
        ("program_without_memory", "it needs more memory than it may take on this machine"),
    ],
)
def test_no_sample_is_blamed_for_what_this_machine_lacks(
    name: str, said: str, tmp_path: Path
) -> None:
    verdict = hostile(name, tmp_path, seconds=HANGS)

    assert verdict.outcome == "not judged"
    assert f"{said}: validate where it will train" in verdict.reasons[-1].message


def test_a_process_that_the_system_killed_for_its_memory_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = tmp_path / "memory.events"
    counts.write_text("low 0\noom_kill 7\n")
    monkeypatch.setattr(user_process, "OOM_COUNTS", [counts, tmp_path / "none"])

    verdict = hostile("killed_by_the_system", tmp_path)

    assert verdict.outcome == "not judged"
    assert (
        "it needs more memory than this machine has: validate where it will train"
        in verdict.reasons[-1].message
    )


def test_the_item_of_a_map_style_dataset_at_which_it_hangs_is_named(tmp_path: Path) -> None:
    verdict = hostile("Stuck", tmp_path, seconds=HANGS)

    assert (verdict.outcome, verdict.usable) == ("stalls", 5)
    assert "stage 1 Stuck hangs" in verdict.reasons[0].message
    assert "hostile_pipelines.py:" in verdict.reasons[0].message
    assert verdict.reasons[0].message.endswith("at item 5")


def test_one_that_cannot_be_built_without_a_gpu_says_so(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"NVIDIA driver.*validate where it will train"):
        hostile("needs_a_gpu", tmp_path)


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (RuntimeError("No CUDA GPUs are available"), GPU),
        (AssertionError("Torch not compiled with CUDA enabled"), GPU),
        (ImportError("libcuda.so.1: cannot open shared object file"), GPU),
        (KeyError("gpu"), ""),
        (ValueError("no caption"), ""),
        (MemoryError(), MEMORY),
        (OSError(errno.ENOMEM, "x"), MEMORY),
        (OSError(errno.ENOSPC, "x"), "this machine has no space left on its disk"),
        (OSError(errno.EMFILE, "x"), "this machine allows no more open files"),
        (OSError(errno.ENOENT, "x"), ""),
        (RuntimeError("can't start new thread"), MEMORY),
        (subprocess.CalledProcessError(1, "x", stderr=b"std::bad_alloc"), MEMORY),
        (subprocess.CalledProcessError(1, "x", stderr="Out of memory"), MEMORY),
        (subprocess.CalledProcessError(1, "x", stderr="no such file"), ""),
        (subprocess.CalledProcessError(1, "x"), ""),
    ],
)
def test_errors_about_the_machine_are_told_from_those_about_samples(
    error: Exception, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_faults, "_has_gpu", lambda: False)
    assert machine_fault(error) == fault

    wrapped = RuntimeError("in stage 3")
    wrapped.__cause__ = error
    assert machine_fault(wrapped) == fault


def test_an_assertion_about_a_gpu_is_known_by_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_faults, "_has_gpu", lambda: False)

    # The statement assert has a text in these tests.
    def needs_cuda() -> None:
        raise AssertionError  # cuda

    def needs_captions() -> None:
        raise AssertionError  # captions

    for function, fault in ((needs_cuda, GPU), (needs_captions, "")):
        with pytest.raises(AssertionError) as caught:
            function()
        assert machine_fault(caught.value) == fault
    assert machine_fault(AssertionError()) == ""


def test_where_there_is_a_gpu_an_error_of_it_is_that_of_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine_faults, "_has_gpu", lambda: True)
    assert machine_fault(RuntimeError("CUDA error: invalid argument")) == ""
