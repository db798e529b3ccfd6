"""Traces of real pipelines: both generations of webdataset, torch's loader, and OpenCLIP."""

import io
import json
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from wdsflow import trace

wds = pytest.importorskip("webdataset")
torch = pytest.importorskip("torch")

# webdataset leaves its files to the garbage collector.
pytestmark = [pytest.mark.webdataset, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def write_shards(folder: Path, fields: tuple[str, ...], count: int = 30) -> str:
    """Write two shards of ``count`` samples each; return their brace pattern."""
    picture = io.BytesIO()
    Image.new("RGB", (24, 16), (200, 30, 3)).save(picture, "JPEG")
    contents = {
        "jpg": picture.getvalue(),
        "txt": b"a red box",
        "json": json.dumps({"caption": "a box"}).encode(),
    }
    for number in range(2):
        with tarfile.open(folder / f"{number}.tar", "w") as tar:
            for index in range(count):
                for field in fields:
                    member = tarfile.TarInfo(f"{number}{index:04d}.{field}")
                    member.size = len(contents[field])
                    tar.addfile(member, io.BytesIO(contents[field]))
    return str(folder / "{0..1}.tar")


def stage(result: Any, name: str) -> Any:
    return next(stage for stage in result.stages if stage.title.startswith(name))


LONG = 1e6  # seconds: nothing of what is tested waits for so long


def dataset(urls: Any, **kw: Any) -> Any:
    return wds.WebDataset(urls, shardshuffle=False, **kw)


def has_caption(sample: dict[str, Any]) -> bool:
    return "txt" in sample


def test_a_webdataset_that_filters_everything(tmp_path: Path):
    result = trace(
        dataset(write_shards(tmp_path, ("jpg", "json"))).select(has_caption).decode("pil"),
        seconds=LONG,
    )
    assert "select(has_caption) drops 60 of 60 samples; fields seen: jpg, json" in result.verdict
    assert result.ending == "pass"


def test_an_endless_empty_loop_is_found_in_the_first_pass(tmp_path: Path):
    data = dataset(write_shards(tmp_path, ("jpg", "json"))).select(has_caption).with_epoch(1000)
    assert data.repetitions == sys.maxsize
    result = trace(data, seconds=LONG)
    assert "select(has_caption) drops 60 of 60 samples" in result.verdict
    assert "0 samples left after one full pass" in result.verdict


def test_resampled_shards_without_a_usable_sample(tmp_path: Path):
    result = trace(
        dataset(write_shards(tmp_path, ("jpg",)), resampled=True).select(has_caption),
        samples=200,
        seconds=LONG,
    )
    assert "drops 200 of 200 samples" in result.verdict
    assert "will read endlessly" in result.verdict


def test_resampled_shards_without_any_sample(tmp_path: Path):
    for number in range(2):
        tarfile.open(tmp_path / f"{number}.tar", "w").close()
    source = wds.ResampledShards(str(tmp_path / "{0..1}.tar"))
    result = trace(wds.DataPipeline(source, wds.tarfile_to_samples()), seconds=LONG)
    assert result.ending == "pass"
    assert "makes no sample of" in result.verdict
    assert "this pipeline would repeat it endlessly" in result.verdict


def test_a_loader_with_workers_is_taken_apart_and_runs_here(tmp_path: Path):
    data = (
        dataset(write_shards(tmp_path, ("jpg", "txt")))
        .decode("torchrgb")
        .to_tuple("jpg", "txt")
        .batched(7)
    )
    loader = (
        wds.WebLoader(data, batch_size=None, num_workers=2)
        .unbatched()
        .shuffle(100)
        .batched(16)
        .with_epoch(3)
    )
    before = [dict(vars(step)) for step in loader.pipeline if hasattr(step, "kw")]
    result = trace(loader, seconds=LONG)
    assert result.verdict.startswith("nothing is lost: 60 samples")
    assert (stage(result, "DataLoader").out, stage(result, "unbatched").out) == (9, 60)
    assert stage(result, "batched(16").rows == 60
    assert "over 2 workers" in str(result)
    assert [dict(vars(step)) for step in loader.pipeline if hasattr(step, "kw")] == before


def test_a_torch_loader_over_a_map_style_dataset():
    loader = torch.utils.data.DataLoader(["a", "b", "c"], batch_size=2, num_workers=0, shuffle=True)
    state = torch.get_rng_state()
    result = trace(loader, seconds=LONG)
    assert [step.out for step in result.stages] == [3, 2]
    assert torch.equal(torch.get_rng_state(), state)


def test_a_bad_picture_is_found_with_its_key(tmp_path: Path):
    urls = write_shards(tmp_path, ("jpg", "txt"), count=1)
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for field, content in (("jpg", b"no picture"), ("txt", b"a")):
            member = tarfile.TarInfo(f"bad.{field}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    result = trace(dataset(urls).decode("pil", handler=wds.ignore_and_continue), seconds=LONG)
    assert "1 error swallowed" in result.verdict
    assert f"(key bad, shard {tmp_path / '0.tar'})" in result.verdict


def open_clip_loader(urls: str, batch_size: int = 8, resampled: bool = False) -> Any:
    """Return the loader that open_clip_train itself builds, for two workers."""
    data = pytest.importorskip("open_clip_train.data")
    if "eof_value" in wds.tariterators.tar_file_expander.__code__.co_varnames:
        pytest.skip("OpenCLIP 3.3 needs webdataset <= 0.2.86")
    arguments = SimpleNamespace(
        train_data=urls,
        train_num_samples=60,
        train_data_upsampling_factors=None,
        dataset_resampled=resampled,
        seed=0,
        workers=2,
        batch_size=batch_size,
        world_size=1,
    )
    return data.get_wds_dataset(
        arguments, to_tensor, is_train=True, tokenizer=lambda _: torch.zeros(1, 77)
    )


def to_tensor(picture: Image.Image) -> Any:
    return torch.zeros(3, *picture.size)


def test_open_clip_with_captions_in_json(tmp_path: Path):
    loader = open_clip_loader(write_shards(tmp_path, ("jpg", "json"))).dataloader
    result = trace(loader, seconds=LONG)
    assert result.verdict == (
        "stage 7 select(filter_no_caption_or_no_image) drops 60 of 60 samples; fields seen: jpg, json; "
        "0 samples left after one full pass: OpenCLIP would repeat it endlessly"
    )
    assert not result.ok


def test_open_clip_with_sound_shards_and_the_loader_works_as_before(tmp_path: Path):
    info = open_clip_loader(write_shards(tmp_path, ("jpg", "txt", "json")))
    result = trace(info, seconds=LONG)
    assert result.ok
    assert stage(result, "select").lost == stage(result, "decode").lost == 0
    assert stage(result, "batched").rows == 56
    images, texts = next(iter(info.dataloader.pipeline[0].dataset))
    assert (images.shape, texts.shape) == ((8, 3, 24, 16), (8, 77))


def test_open_clip_with_fewer_samples_than_one_batch(tmp_path: Path):
    result = trace(
        open_clip_loader(write_shards(tmp_path, ("jpg", "txt")), batch_size=64), seconds=LONG
    )
    assert "gets 60 samples, too few for one batch of 64" in result.verdict
    assert "OpenCLIP would repeat it endlessly" in result.verdict


def test_open_clip_resampled_with_captions_in_json(tmp_path: Path):
    result = trace(
        open_clip_loader(write_shards(tmp_path, ("jpg", "json")), resampled=True), seconds=LONG
    )
    assert "drops 1,000 of 1,000 samples; fields seen: jpg, json" in result.verdict
    assert "OpenCLIP will read endlessly" in result.verdict
