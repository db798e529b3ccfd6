"""Our jobs of the benchmarks run, here on small shards."""

import fsspec
import pytest
from support.bench.jobs import JOBS

from tests.filtering.shards import picture
from tests.shards.archives import write_tar

SHARDS, SAMPLES = 2, 12


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Shards of the benchmarks' form: jpg, txt and json."""
    folder = tmp_path_factory.mktemp("bench") / "small"
    folder.mkdir()
    paths = []
    for shard in range(SHARDS):
        members = []
        for sample in range(SAMPLES):
            key = f"{shard:04d}{sample:04d}"
            members += [
                (f"{key}.jpg", picture(600, 600, sample)),
                (f"{key}.txt", b" ".join([b"word"] * (6 + sample))),
                (f"{key}.json", b"{}"),
            ]
        path = folder / f"{shard:04d}.tar"
        write_tar(path, members)
        paths.append(str(path))
    return paths


@pytest.mark.parametrize(
    "job",
    [
        "names",
        "headers",
        "full",
        "filter",
        "filter-pixels",
        "filter-by-ledger",
        "resize",
        "resize-exact",
        "reshard",
        "graft",
        "pack",
        *(
            pytest.param(f"later-epoch-{work}", marks=pytest.mark.deep)
            for work in ("cached", "half-cached", "webdataset")
        ),
    ],
)
def test_a_job_sees_all_samples(shards: list[str], job: str) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    # It would look for the server of the test before.
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    result = JOBS[job](shards)
    assert result["samples"] == SHARDS * SAMPLES
    assert result["cpu_seconds"] > 0
