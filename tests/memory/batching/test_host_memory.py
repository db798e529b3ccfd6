"""Host memory with a real limit: allocations that the system refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wdsflow.memory.batching.device import HostDevice
from wdsflow.memory.usage import private_data_bytes

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import json, resource, sys
import numpy as np
from wdsflow.memory.batching.attempt import Failure
from wdsflow.memory.batching.probe import probe
from wdsflow.memory.batching.runner import BatchRunner
from wdsflow.memory.batching.device import HostDevice
from wdsflow.memory.usage import private_data_bytes

MIB = 1 << 20
sizes = [(index * 7) % 40 + 1 for index in range(60)]
sizes[17] = 300

def run(batch):
    arrays = np.ones((len(batch), max(batch), MIB), np.uint8)
    return [int(arrays[index, :size, ::4096].sum()) for index, size in enumerate(batch)]

resource.setrlimit(resource.RLIMIT_DATA, (private_data_bytes() + 200 * MIB, resource.RLIM_INFINITY))
runner = BatchRunner(run, cost=lambda size: size, waste=None)
results = runner.map(sizes)
resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
bad = [(index, result.slug, result.numbers["cost"], result.detail)
       for index, result in enumerate(results) if isinstance(result, Failure)]
right = sum(result == size * 256 for result, size in zip(results, sizes))
print(json.dumps({"bad": bad, "right": right, "short": runner.tally.out_of_memory, "limit": runner.ceiling.limit}))
"""


@pytest.mark.deep
@pytest.mark.skipif(
    not private_data_bytes(), reason="the system does not tell what RLIMIT_DATA counts"
)
def test_real_allocations_that_fail_are_split_until_they_fit():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)

    ((index, slug, cost, detail),) = found["bad"]
    assert (index, slug, cost) == (17, "out-of-memory", 300)
    assert "300. MiB" in detail
    assert found["right"] == 59
    assert found["short"] >= 2
    assert found["limit"] <= 200


def test_the_memory_of_the_host_is_told():
    memory = HostDevice().memory()

    assert 0 <= memory["free"] <= memory["total"]
    assert 0 < memory["resident"] < memory["total"]


TOOK = """
from wdsflow.memory.batching.device import HostDevice
device = HostDevice()
device.start_measuring()
before = device.peak_growth()
block = bytearray(b"x") * (64 << 20)
del block
print(device.peak_growth() - before)
"""


def test_what_a_run_took_is_measured():
    """In a process of its own: what other threads of this one give back meanwhile would hide it."""
    done = subprocess.run(
        [sys.executable, "-c", TOOK], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) >= 48 << 20
