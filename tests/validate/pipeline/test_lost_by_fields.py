"""What is lost because of the fields alone is counted exactly; what contents might save stays a range."""

import io
import tarfile
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from PIL import Image

from tests.validate.pipeline import certain_pipelines
from tests.validate.pipeline.really import RealRun
from wdsflow.scan.evidence import Evidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_options import ScanOptions
from wdsflow.validate.pipeline.probe_pipeline import ProbeLimits, judge_pipeline
from wdsflow.validate.pipeline.probe_process import ProbeProcess
from wdsflow.validate.verdicts.verdict import Verdict

LIBRARY = Path(certain_pipelines.__file__)
LIMITS = ProbeLimits(whole_samples=0, samples=24)
COMPLETE, ALL = 30, 330  # every eleventh sample has a caption; of the others, some have one in json

pytestmark = pytest.mark.webdataset


@cache
def jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("certain")
    for shard in range(3):
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for number in range(110 * shard, 110 * shard + 110):
                name = "caption" if number % 110 == 77 else "title"
                fields = {"jpg": jpeg(), "json": f'{{"{name}": "{number}"}}'.encode()}
                if number % 11 == 5:
                    fields["txt"] = b"a cat"
                for field, data in fields.items():
                    info = tarfile.TarInfo(f"{number:04d}.{field}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return [str(folder / f"{shard}.tar") for shard in range(3)]


def judged(name: str, urls: list[str]) -> Verdict:
    options = ScanOptions("full")
    with ProbeProcess(f"{LIBRARY}:{name}") as process:
        return judge_pipeline(
            process, Evidence("full", [scan_shard(url, options) for url in urls]), options, 0.05, LIMITS
        )


def lost_exactly(verdict: Verdict) -> bool:
    """Return whether no sample without a caption is counted as possible."""
    return verdict.usable <= COMPLETE


def came(name: str, urls: list[str]) -> int:
    with closing(RealRun("certain_pipelines")) as real:
        return int(real.run(name, urls)["count"])


@pytest.mark.deep
@pytest.mark.parametrize("name", certain_pipelines.CERTAIN[:1])
def test_samples_without_a_field_that_the_code_needs_are_lost_exactly(name: str, shards: list[str]) -> None:
    verdict = judged(name, shards)

    assert lost_exactly(verdict)
    assert came(name, shards) == COMPLETE


@pytest.mark.deep
@pytest.mark.parametrize("name", certain_pipelines.CERTAIN[1:])
def test_whatever_stage_needs_the_field(name: str, shards: list[str]) -> None:
    assert lost_exactly(judged(name, shards))
    assert came(name, shards) == COMPLETE


@pytest.mark.deep
@pytest.mark.parametrize("name", certain_pipelines.OTHERS[:1])
def test_where_contents_could_save_a_sample_the_range_stays_open(name: str, shards: list[str]) -> None:
    verdict = judged(name, shards)

    assert not lost_exactly(verdict)
    assert (verdict.least or 0) <= came(name, shards) <= verdict.usable


@pytest.mark.deep
@pytest.mark.parametrize("name", certain_pipelines.OTHERS[1:])
def test_whatever_could_save_it(name: str, shards: list[str]) -> None:
    verdict = judged(name, shards)

    assert not lost_exactly(verdict)
    assert (verdict.least or 0) <= came(name, shards) <= verdict.usable
