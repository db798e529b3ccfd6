"""What a run that is finished leaves in its folder."""

from pathlib import Path

from tests.filtering.commands import run
from tests.filtering.shards import write_shards
from wdsflow.records.run_state import PREFIX


def test_a_finished_run_leaves_no_state_of_its_process(tmp_path: Path) -> None:
    source = write_shards(tmp_path / "in", shards=1, samples=2)
    done = run("filter", source, "-o", tmp_path / "out", "--where", "width > 1", "--jobs", 0)
    assert done.status == 0
    assert not list((tmp_path / "out").rglob(f"{PREFIX}*"))
