import resource
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.golden_file import check_file
from wdsflow.text.install import install_extras, install_packages
from wdsflow.text.shell import Command
from wdsflow.validate.checkup import CHECKS, Diagnosis, examine
from wdsflow.validate.machine import UNLIMITED, Machine, this_machine

GIB = 1 << 30
SOUND = {
    "python": "3.11.7",
    "open_clip_torch": "3.3.0",
    "webdataset": "0.2.86",
    "torch": "2.9.0",
    "torchvision": "0.24.0",
    "numpy": "2.3.0",
}


def said(name: str, **facts) -> list[Diagnosis]:
    facts.setdefault("versions", SOUND)
    return [each for each in examine(Machine(**facts)) if each.name == name]


def worst(name: str, **facts) -> str:
    order = ["ok", "info", "warning", "error"]
    return max((each.status for each in said(name, **facts)), key=order.index, default="")


def test_a_machine_without_a_limit_of_open_files_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    # Linux itself has no such machine: its limit is a number.
    monkeypatch.setattr(
        resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )
    machine = this_machine()
    assert (machine.files_soft, machine.files_hard) == (UNLIMITED, UNLIMITED)


def test_a_sound_machine_has_no_trouble():
    machine = Machine(
        versions=SOUND,
        shm_total=64 * GIB,
        shm_free=64 * GIB,
        files_soft=65_536,
        files_hard=65_536,
        temp_free=99 * GIB,
    )
    assert {each.status for each in examine(machine)} == {"ok"}


def test_webdataset_after_0_2_95_breaks_openclip_3_3():
    (found,) = said("versions", versions=SOUND | {"webdataset": "1.0.2"})
    assert found.status == "error"
    assert "fname" in found.message
    assert found.fix == install_packages("webdataset<=0.2.86")


def test_openclip_without_webdataset_is_an_error():
    versions = {name: version for name, version in SOUND.items() if name != "webdataset"}
    assert worst("installed", versions=versions) == "error"
    assert worst("installed", versions={"python": "3.11.7"}) == "info"


@pytest.mark.parametrize(
    ("free", "status"), [(64 << 20, "error"), (GIB, "warning"), (16 * GIB, "ok")]
)
def test_shared_memory_is_measured_against_what_batches_need(free, status):
    assert worst("shared memory", shm_total=64 * GIB, shm_free=free) == status
    assert said("shared memory") == []  # where there is no /dev/shm


def test_openclip_s_defaults_need_more_than_docker_gives():
    (found,) = said("shared memory", shm_total=64 << 20, shm_free=64 << 20)
    assert "308 MB" in found.message  # 2 batches x 4 workers x 64 images x 3 x 224 x 224 floats
    assert "--shm-size" in found.fix


@pytest.mark.parametrize(
    ("soft", "hard", "status", "fix"),
    [
        (1024, 1_048_576, "warning", "ulimit -n 65536"),
        (2048, 8192, "info", "ulimit -n 8192"),
        (1024, 1024, "warning", "limits.conf"),
        (65_536, 65_536, "ok", ""),
        (UNLIMITED, UNLIMITED, "ok", ""),
    ],
)
def test_the_fix_for_few_open_files_is_one_that_the_hard_limit_allows(soft, hard, status, fix):
    (found,) = said("open files", files_soft=soft, files_hard=hard)
    assert found.status == status
    assert fix in found.fix


def test_spawned_workers_break_openclip_3_and_not_4():
    assert worst("start method", start_method="spawn") == "error"
    assert (
        worst("start method", start_method="spawn", versions=SOUND | {"open_clip_torch": "4.2.0"})
        == "info"
    )
    assert worst("start method", start_method="fork") == "ok"


def test_python_3_14_is_reported_once():
    versions = SOUND | {"python": "3.14.0"}
    found = examine(Machine(versions=versions, start_method="forkserver"))
    assert len([each for each in found if each.status == "error"]) == 1


def test_allocator_variables_that_are_not_read_are_told():
    assert worst("GPU allocator", variables={"PYTORCH_ALLOC_CONF": "a:1"}) == "warning"
    both = {"PYTORCH_ALLOC_CONF": "a:1", "PYTORCH_CUDA_ALLOC_CONF": "a:1"}
    assert worst("GPU allocator", variables=both) == "ok"
    assert worst("GPU allocator", variables=both | {"PYTORCH_ALLOC_CONF": "a:2"}) == "warning"
    assert said("GPU allocator") == []


def test_debugging_allocators_and_useless_tunables_are_told():
    assert worst("allocator", variables={"MALLOC_PERTURB_": "7"}) == "warning"
    assert worst("allocator", variables={"PYTHONMALLOC": "debug"}) == "warning"
    preload = {"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}
    assert worst("allocator", variables=preload) == "ok"
    assert (
        worst("allocator", variables=preload | {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})
        == "info"
    )


def test_huge_pages_are_advised_only_where_they_exist_and_are_not_set():
    glibc = {"libc": "glibc 2.36", "huge_pages": "madvise"}
    (found,) = said("allocator", **glibc)
    assert (found.status, found.fix) == ("info", "export GLIBC_TUNABLES=glibc.malloc.hugetlb=1")
    assert said("allocator", libc="glibc 2.31", huge_pages="madvise") == []
    assert said("allocator", libc="glibc 2.36", huge_pages="never") == []
    assert (
        worst("allocator", variables={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}, **glibc) == "ok"
    )


def test_tensorflow_beside_torch_is_a_warning_until_it_is_told_to_share():
    versions = SOUND | {"tensorflow": "2.20.0"}
    assert worst("TensorFlow", versions=versions) == "warning"
    assert (
        worst("TensorFlow", versions=versions, variables={"TF_FORCE_GPU_ALLOW_GROWTH": "true"})
        == "ok"
    )
    assert said("TensorFlow") == []


def test_limits_of_a_container_are_told():
    (found,) = said("cores", cores=64, quota=4.0)
    assert (found.status, found.fix) == ("info", "train with --workers 4")
    assert worst("memory", memory=64 * GIB, memory_limit=8 * GIB) == "info"
    assert worst("memory", memory=64 * GIB, overcommit=2) == "warning"


@pytest.mark.parametrize(("value", "status"), [("four", "warning"), ("64", "warning"), ("1", "ok")])
def test_threads_are_compared_with_cores(value, status):
    assert worst("threads", cores=8, variables={"OMP_NUM_THREADS": value}) == status


def test_variables_that_rewrite_urls_are_named():
    (found,) = said("url variables", variables={"GOPEN_REWRITE": "a=b", "HOME": "/root"})
    assert "GOPEN_REWRITE=a=b" in found.message
    assert found.fix == "unset GOPEN_REWRITE"


BAD = (
    Machine(
        versions=SOUND | {"webdataset": "1.0.2", "tensorflow": "2.20.0", "torchvision": "0.20.0"},
        variables={
            "OMP_NUM_THREADS": "x",
            "MALLOC_CHECK_": "3",
            "PYTORCH_ALLOC_CONF": "a",
            "GOPEN_REWRITE": "a=b",
        },
        start_method="spawn",
        cores=64,
        quota=2.0,
        memory=GIB,
        overcommit=2,
        shm_total=1,
        shm_free=1,
        files_soft=256,
        files_hard=256,
        temp_free=0,
    ),
    Machine(
        versions=SOUND,
        variables={
            "PYTHONMALLOC": "debug",
            "LD_PRELOAD": "/lib/libjemalloc.so",
            "GLIBC_TUNABLES": "glibc.malloc.x=1",
        },
        files_soft=1024,
        files_hard=8192,
    ),
    Machine(
        versions=SOUND, libc="glibc 2.36", huge_pages="madvise", variables={"OMP_NUM_THREADS": "99"}
    ),
)


def test_every_trouble_has_a_fix():
    found = examine(BAD[0])
    assert {each.name for each in found if each.status == "ok"} <= {
        "installed",
        "memory",
        "GPU allocator",
    }
    assert [each for each in found if each.status in {"warning", "error"} and not each.fix] == []


def test_every_fix_that_is_a_command_runs_as_it_is_printed():
    fixes = {
        each.fix for machine in BAD for each in examine(machine) if isinstance(each.fix, Command)
    }
    assert len(fixes) > 8
    for fix in fixes:
        if " install " not in fix:  # tests/text does those
            done = subprocess.run(
                ["bash", "-euc", f"PYTORCH_ALLOC_CONF=; {fix}"],
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, ""), fix


def test_this_machine_can_be_examined():
    found = examine()
    assert {each.name for each in found} <= CHECKS.keys()
    assert this_machine().cores >= 1


# Facts of a machine -> what is said of them, name by name; both sides of each boundary.
MACHINES: dict[str, dict[str, Any]] = {
    "nothing known": {},
    "other versions": {
        "versions": SOUND | {"webdataset": "1.0.2", "tensorflow": "2.20.0", "pillow": "12.0"}
    },
    "no webdataset": {"versions": {"python": "3.12.1", "open_clip_torch": "3.3.0"}},
    "spawn": {"start_method": "spawn", "versions": SOUND},
    "spawn, 4": {"start_method": "spawn", "versions": SOUND | {"open_clip_torch": "4.0.0"}},
    "spawn, 3.14": {"start_method": "forkserver", "versions": SOUND | {"python": "3.14.0"}},
    "shm of the defaults": {"shm_total": GIB, "shm_free": 308_281_344},
    "less shm": {"shm_total": GIB, "shm_free": 308_281_343},
    "shm of many workers": {"shm_total": 4 * GIB, "shm_free": 2_466_250_752},
    "shm of fewer": {"shm_total": 4 * GIB, "shm_free": 2_466_250_751},
    "4096 files": {"files_soft": 4096, "files_hard": 4096},
    "4095 files": {"files_soft": 4095, "files_hard": 4096},
    "1025 files": {"files_soft": 1025, "files_hard": 4095},
    "1024 files": {"files_soft": 1024, "files_hard": 100_000},
    "all files": {"files_soft": UNLIMITED, "files_hard": UNLIMITED},
    "whole memory": {"memory": 64 * GIB, "memory_limit": 64 * GIB, "overcommit": 1},
    "limited memory": {"memory": 64 * GIB, "memory_limit": 8 * GIB, "overcommit": 2},
    "quota": {"cores": 8, "quota": 2.5},
    "half a core": {"cores": 8, "quota": 0.5},
    "whole quota": {"cores": 8, "quota": 8.0},
    "threads": {"cores": 8, "variables": {"OMP_NUM_THREADS": "8"}},
    "more threads": {"cores": 8, "variables": {"OMP_NUM_THREADS": "9"}},
    "no threads": {"cores": 8, "variables": {"OMP_NUM_THREADS": "0"}},
    "little temporary space": {"temp_free": GIB - 1},
    "temporary space": {"temp_free": 10 * GIB},
    "debugging": {
        "variables": {
            "MALLOC_CHECK_": "3",
            "PYTHONMALLOC": "default",
            "LD_PRELOAD": "/l/libtcmalloc.so",
        }
    },
    "tunables": {
        "variables": {"GLIBC_TUNABLES": "glibc.malloc.x=1"},
        "libc": "glibc 2.36",
        "huge_pages": "madvise",
    },
    "huge pages": {"libc": "glibc 2.35", "huge_pages": "madvise"},
    "older libc": {"libc": "glibc 2.34", "huge_pages": "madvise"},
    "GPU": {"variables": {"PYTORCH_ALLOC_CONF": "a:1", "PYTORCH_CUDA_ALLOC_CONF": "a:2"}},
    "urls": {
        "variables": {"GOPEN_REWRITE": "a=b", "WDS_SEED": "3", "OPENCLIP_WDS_X": "1", "WDS": "no"}
    },
    "TensorFlow": {
        "versions": SOUND | {"tensorflow": "2.20"},
        "variables": {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
    },
}


def test_what_is_said_of_a_machine_is_what_the_golden_file_says():
    """``WDSFLOW_UPDATE_GOLDENS=1 pytest ...`` writes the file again."""
    extras, installer = install_extras("openclip"), install_packages("*").removesuffix("'*'")
    lines = []
    for name, facts in MACHINES.items():
        found = [
            " | ".join(map(str, each.to_dict().values())) for each in examine(Machine(**facts))
        ]
        # The others are said of every machine.
        new = [line for line in found if not facts or f"  {line}" not in lines]
        lines += [name, *(f"  {line}" for line in new)]
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    text = text.replace(extras, "EXTRAS").replace(installer, "INSTALL ")
    check_file(Path(__file__).parent / "doctor.txt", text)


def test_folders_whose_size_is_unknown_are_not_judged(monkeypatch):
    def fails(_):
        raise OSError

    monkeypatch.setattr("shutil.disk_usage", fails)
    found = this_machine()
    assert found.memory == psutil.virtual_memory().total
    assert (found.shm_total, found.shm_free, found.temp_free) == (None, None, None)
    assert {each.name for each in examine(found)}.isdisjoint({"shared memory", "temporary files"})
