"""The advice for a pipeline is applied to it, and the samples come back."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.validate.pipeline.really import jpeg, scanned
from wdsflow.validate.finding import Advice
from wdsflow.validate.pipeline.probe_pipeline import probe_pipeline

TRAIN = """\
import json
import webdataset as wds

def caption_of(sample):
    return json.loads(sample["json"])["caption"]

def make(urls):
    dataset = wds.WebDataset(urls, handler=wds.ignore_and_continue, shardshuffle=False).decode("pil")
    return dataset.to_tuple("jpg", "txt", handler=wds.ignore_and_continue)

def strict(urls):
    return wds.WebDataset(urls, shardshuffle=False).to_tuple("jpg", "txt")

def of_json(urls):
    return wds.WebDataset(urls, shardshuffle=False).to_tuple("jpg", "json")

def broken(urls):
    return wds.WebDataset(urls, shardshuffle=False).map(lambda sample: sample["json"])

def whole_batches(urls):
    return make(urls).batched(5, partial=False)
"""


def advised(tmp_path: Path, name: str, fields: dict[str, bytes]) -> tuple[list[Advice], str]:
    url, code = str(tmp_path / "0.tar"), tmp_path / "train.py"
    code.write_text(TRAIN)
    with tarfile.open(url, "w") as tar:
        for number in range(12):
            sample = fields if number % 3 else {"jpg": jpeg(), "txt": b"a cat"}
            for field, data in sample.items():
                info = tarfile.TarInfo(f"{number:03d}.{field}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return list(probe_pipeline(f"{code}:{name}", *scanned([url], "headers")).advice), url


def pasted(code: str, url: str) -> int:
    """Return how many samples come out of the pipeline with the stages where the advice says."""
    import webdataset as wds

    names: dict[str, Any] = {}
    exec(code, names)
    calm = wds.ignore_and_continue
    dataset = wds.WebDataset(url, handler=calm, shardshuffle=False, nodesplitter=wds.split_by_node)
    dataset = dataset.compose(*names["stages"]).decode("pil").to_tuple("jpg", "txt", handler=calm)
    came = len(list(dataset))
    dataset.close()
    return came


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "fields",
    [
        {"jpg": jpeg(), "json": b'{"caption": "a black cat on a mat"}'},
        pytest.param({"jpg": jpeg(), "caption": b"a cat"}, marks=pytest.mark.deep),
        pytest.param({"png": jpeg(), "txt": b"a cat"}, marks=pytest.mark.deep),
    ],
)
def test_the_stages_of_the_advice_bring_the_samples_back(fields: dict[str, bytes], tmp_path: Path) -> None:
    advice, url = advised(tmp_path, "make", fields)

    assert [(each.regains, each.usable, each.now) for each in advice] == [(8, 12, 4)]
    assert "before stage" in advice[0].does
    assert pasted(advice[0].command, url) == 12


@pytest.mark.deep
@pytest.mark.webdataset
def test_a_stage_that_ends_the_run_gets_a_handler(tmp_path: Path) -> None:
    advice, _ = advised(tmp_path, "strict", {"jpg": jpeg(), "cls": b"7"})

    assert [each.command for each in advice] == ["handler=wds.warn_and_continue"]
    assert "to_tuple('jpg', 'txt')" in advice[0].does


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "told"), [("of_json", ["no sample has json; they have jpg, txt"]), ("broken", [])])
def test_no_handler_is_advised_that_leaves_no_sample(name: str, told: list[str], tmp_path: Path) -> None:
    advice, _ = advised(tmp_path, name, {"jpg": jpeg(), "txt": b"a cat"})

    assert [each.does.rpartition(": ")[2] for each in advice] == told
    assert [each.command for each in advice] == [""] * len(told)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.deep
@pytest.mark.webdataset
@pytest.mark.parametrize("name", ["whole_batches", "strict"])
def test_the_advice_counts_whole_batches_and_samples_after_the_one_that_ended_the_run(
    name: str, tmp_path: Path
) -> None:
    advice, url = advised(tmp_path, name, {"jpg": jpeg(), "caption": b"a cat"})

    came = pasted(advice[0].command, url)
    assert advice[0].usable == (came // 5 * 5 if name == "whole_batches" else came)
