from pathlib import Path

import pytest

from tests.conformance.generate import make_set
from tests.conformance.hurts import SAMPLE_HURTS
from tests.conformance.layouts import LAYOUT_HURTS
from tests.conformance.tar_hurts import BYTE_HURTS


@pytest.mark.deep
def test_seeds_reach_every_hurt_and_leave_some_shards_sound(tmp_path: Path) -> None:
    seen: set[str] = set()
    sound = shards = 0
    for seed in range(220):
        made = make_set(seed, tmp_path)
        for shard in made.shards:
            seen |= {hurt.partition("@")[0] for hurt in shard.hurts}
            sound += not shard.hurts
            shards += 1
        made.remove()

    assert (
        not {*SAMPLE_HURTS, *LAYOUT_HURTS, *BYTE_HURTS, "missing", "directory", "zst", "html"}
        - seen
    )
    assert 0.2 < sound / shards < 0.8
    assert not list(tmp_path.iterdir())
