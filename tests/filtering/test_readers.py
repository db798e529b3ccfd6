"""Filtered shards in the hands of OpenCLIP's own loader, and before our own judge."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.filtering.shards import picture
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, check, filter_shards
from wdsflow.stages import CleanText, JsonText

# webdataset leaves its files to the garbage collector.
pytestmark = [pytest.mark.webdataset, pytest.mark.filterwarnings("ignore::ResourceWarning")]

TRAINABLE = Recipe(
    where="min_side >= 40 and caption_words >= 2 and not duplicate",
    stages=(JsonText("caption"), CleanText()),
)


@pytest.fixture
def filtered(tmp_path: Path) -> Path:
    """Filter six shards whose captions are in json.

    Each has small and broken pictures, and nothing of two of them is kept.
    """
    (tmp_path / "in").mkdir()
    for shard in range(6):
        members = []
        for number in range(12):
            key = f"{shard}{number:03d}"
            side = 20 if shard in {4, 5} or number % 3 == 2 else 48 + number
            image = b"broken" if number == 4 else picture(side, 60 + shard, number + 12 * shard)
            caption = json.dumps({"caption": f" picture\n number {key} "}).encode()
            members += [(f"{key}.jpg", image), (f"{key}.json", caption)]
        write_tar(tmp_path / "in" / f"{shard:05d}.tar", members)
    report = filter_shards(str(tmp_path / "in"), tmp_path / "out", TRAINABLE, RunOptions(jobs=0))
    assert report.total("kept") == 28
    return tmp_path / "out"


def test_openclip_trains_on_the_output_without_being_told_how_many_samples_there_are(
    filtered: Path,
):
    data = pytest.importorskip("open_clip_train.data")
    torch = pytest.importorskip("torch")
    wds = pytest.importorskip("webdataset")
    if "eof_value" in wds.tariterators.tar_file_expander.__code__.co_varnames:
        pytest.skip("OpenCLIP 3.3 needs webdataset <= 0.2.86")
    arguments = SimpleNamespace(
        train_data=str(filtered / "{00000..00003}.tar"),
        train_num_samples=None,
        train_data_upsampling_factors=None,
        dataset_resampled=False,
        seed=0,
        workers=0,
        batch_size=7,
        world_size=1,
    )
    seen: list[str] = []

    def tokenizer(text: str):
        seen.append(text)
        return torch.zeros(1, 77)

    info = data.get_wds_dataset(
        arguments, lambda image: torch.zeros(3, 8, 8), is_train=True, epoch=0, tokenizer=tokenizer
    )
    assert info.dataloader.num_samples == 28
    assert [tuple(images.shape) for images, _ in info.dataloader] == [(7, 3, 8, 8)] * 4
    assert len(set(seen)) == 28
    assert all(text.startswith("picture number ") for text in seen)
    (filtered / "sizes.json").unlink()  # the other file that OpenCLIP looks for
    assert data.get_dataset_size(arguments.train_data) == (28, 4)


@pytest.mark.deep
def test_our_own_judge_finds_nothing_in_the_output(filtered: Path):
    report = check(
        str(filtered / "{00000..00003}.tar"),
        readers=["open-clip-3.3", "webdataset-1"],
        level="full",
    )
    assert [verdict.outcome for verdict in report.verdicts] == ["trains", "trains"]
    # That is of what is installed.
    of_the_shards = [finding for finding in report.findings if finding.code != "P311"]
    assert [finding for finding in of_the_shards if finding.severity != "info"] == []
    whole = check(str(filtered), readers=["open-clip-3.3"], level="full")
    assert [verdict.usable for verdict in whole.verdicts] == [28]
