"""Datasets of torch, Hugging Face and Ray as pipelines."""

from pathlib import Path

import psutil
import pytest

from tests.validate.pipeline.really import differences, jpeg
from tests.validate.pipeline.test_probe_pipeline import write
from wdsflow.validate.check import check
from wdsflow.validate.pipeline.load_pipeline import PipelineError
from wdsflow.validate.pipeline.rewire import Rewiring

HERE = Path(__file__).parent


def test_a_map_style_dataset_gives_its_items_and_is_refused_as_an_object() -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.utils.data.TensorDataset(torch.arange(7))

    made = Rewiring([], made_for_them=True, singly=True)
    assert len(list(made.rewire(numbers))) == 7
    half = torch.utils.data.DataLoader(numbers, sampler=torch.utils.data.SubsetRandomSampler([1, 4, 6]))
    assert sorted(int(item[0]) for item in made.rewire(half).dataset) == [1, 4, 6]
    with pytest.raises(PipelineError, match="name a function of the shards"):
        Rewiring([], made_for_them=False, singly=True).rewire(numbers)


def test_a_dict_of_splits_is_refused_with_their_names() -> None:
    with pytest.raises(PipelineError, match="a dict of 'train', 'test'; return one of them"):
        Rewiring([], made_for_them=True, singly=True).rewire({"train": [], "test": []})


@pytest.mark.deep
@pytest.mark.parametrize("name", ["Pairs", "pairs_loader", "batch_sampler", "streaming", "stored", "stored_loader"])
def test_the_prediction_for_a_dataset_is_what_really_happens(name: str, tmp_path: Path) -> None:
    assert list(differences(name, range(12), tmp_path, module="dataset_pipelines")) == []


@pytest.mark.deep
def test_the_prediction_for_wids_is_what_really_happens(tmp_path: Path) -> None:
    seeds = range(17, 29)  # none has a name in a PAX header: wids reads only the header after it
    assert list(differences("by_wids", seeds, tmp_path, module="dataset_pipelines")) == []


@pytest.mark.deep
def test_a_ray_dataset_is_read_and_no_process_of_ray_stays(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    url = write(tmp_path / "0.tar", 40, missing=4, picture=jpeg())

    verdict = check(url, [], pipeline=f"{HERE / 'ray_pipelines.py'}:with_caption").verdicts[-1]

    assert (verdict.least or verdict.usable, verdict.usable) == (30, 30)
    left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=30)[1]
    assert not [each for each in left if "raylet" in " ".join(each.cmdline())]
