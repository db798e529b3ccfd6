import os
import sys

import pytest

from wdsflow.memory.usage import HeldMemory, held


@pytest.mark.skipif(sys.platform != "linux", reason="others do not hold to these limits")
def test_memory_that_grows_is_measured_again_at_once_and_other_memory_is_not() -> None:
    known = HeldMemory()
    before = known(os.getpid())
    assert before == known(os.getpid())
    assert abs(before - held(os.getpid())) < 8 << 20

    block = bytearray(os.urandom(64 << 20))
    assert known(os.getpid()) - before > 48 << 20
    del block
