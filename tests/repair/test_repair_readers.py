"""Repaired shards in real readers: GNU tar, both generations of webdataset, and OpenCLIP."""

import gzip
import io
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from tests.shards.archives import names, tar_bytes, write_tar
from wdsflow import repair_shards

# webdataset leaves its files to the garbage collector.
pytestmark = [pytest.mark.webdataset, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def picture() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (24, 16), (200, 30, 3)).save(stream, "JPEG")
    return stream.getvalue()


def messy_shards(folder: Path) -> str:
    """Two shards of four samples, all of which are lost without a repair.

    The faults: captions in json, members that are apart, macOS metadata files, names that begin
    with ``./``.
    """
    for number in range(2):
        keys = [f"{number}.{index}" for index in range(4)]
        images = [(f"./{key}.JPG", picture()) for key in keys]
        captions = [
            (f"./{key}.json", json.dumps({"description": f"picture {key}"}).encode())
            for key in keys
        ]
        twins = [(f"./._{key}.JPG", b"twin") for key in keys]
        data = tar_bytes([member for pair in zip(twins, images, strict=True) for member in pair])
        # The second archive is seen by nobody.
        (folder / f"{number}.tar").write_bytes(data + tar_bytes(captions))
    return str(folder / "{0..1}.tar")


def test_webdataset_reads_all_repaired_samples(tmp_path: Path):
    wds = pytest.importorskip("webdataset")
    report = repair_shards(
        messy_shards(tmp_path), tmp_path / "out", caption="json:description", jobs=2
    )
    assert report.total("samples_written") == 8
    got = list(wds.WebDataset(str(tmp_path / "out/{0..1}.tar"), shardshuffle=False))
    assert [sample["__key__"] for sample in got] == [
        f"{number}_{index}" for number in range(2) for index in range(4)
    ]
    for sample in got:
        fields = {name: value for name, value in sample.items() if not name.startswith("__")}
        key = sample["__key__"].replace("_", ".")
        assert fields.keys() == {"jpg", "json", "txt"}
        assert fields["jpg"] == picture()
        assert fields["txt"].decode() == f"picture {key}"


def test_gnu_tar_extracts_them_without_a_word(tmp_path: Path):
    repair_shards(messy_shards(tmp_path), tmp_path / "out")
    (tmp_path / "files").mkdir()
    for number in range(2):
        archive = str(tmp_path / f"out/{number}.tar")
        done = subprocess.run(
            ["tar", "-xvf", archive, "-C", tmp_path / "files"], capture_output=True, check=True
        )
        assert done.stdout.decode().split() == names(tmp_path / f"out/{number}.tar")
        assert done.stderr == b""
    assert (tmp_path / "files/0_0.jpg").read_bytes() == picture()


def test_open_clip_gets_batches_and_the_sample_count_from_repaired_json_shards(tmp_path: Path):
    data = pytest.importorskip("open_clip_train.data")
    wds = pytest.importorskip("webdataset")
    torch = pytest.importorskip("torch")
    if "eof_value" in wds.tariterators.tar_file_expander.__code__.co_varnames:
        pytest.skip("OpenCLIP 3.3 needs webdataset <= 0.2.86")
    repair_shards(messy_shards(tmp_path), tmp_path / "out", caption="json:description")
    arguments = SimpleNamespace(
        train_data=str(tmp_path / "out/{0..1}.tar"),
        train_num_samples=None,  # taken from sizes.json
        train_data_upsampling_factors=None,
        dataset_resampled=False,
        seed=0,
        workers=0,
        batch_size=4,
        world_size=1,
    )
    info = data.get_wds_dataset(
        arguments,
        lambda image: torch.zeros(3, *image.size),
        is_train=True,
        tokenizer=lambda _: torch.zeros(1, 77),
    )
    assert info.dataloader.num_samples == 8
    batches = list(info.dataloader)
    assert [tuple(images.shape) for images, _ in batches] == [(4, 3, 24, 16)] * 2


def test_long_names_survive(tmp_path: Path):
    long = "n" * 130
    write_tar(tmp_path / "0.tar", [(f"{long}.jpg", b"x"), (f"d/{long}/{long}.jpg", b"y")], form=1)
    repair_shards(str(tmp_path / "0.tar"), tmp_path / "out")
    listed = subprocess.run(
        ["tar", "-tf", tmp_path / "out/0.tar"], capture_output=True, check=True, text=True
    )
    assert listed.stdout.split() == [f"{long}.jpg", f"d/{long}/{long}.jpg"]


def trained(urls: list[str]) -> int:
    """Return how many samples OpenCLIP's own steps let through, up to the decoded image."""
    data = pytest.importorskip("open_clip_train.data")
    wds = pytest.importorskip("webdataset")
    steps = [
        wds.SimpleShardList(urls),
        data.tarfile_to_samples_nothrow,
        wds.select(data.filter_no_caption_or_no_image),
        wds.decode("pilrgb", handler=data.log_and_continue),
        wds.rename(image="jpg;png;jpeg;webp", text="txt"),
    ]
    return len(list(wds.DataPipeline(*steps)))


@pytest.mark.parametrize("prefix", ["", "/abs/"])
def test_several_pairs_of_one_id_all_train_after_a_repair(tmp_path: Path, prefix: str):
    wds = pytest.importorskip("webdataset")
    if "eof_value" in wds.tariterators.tar_file_expander.__code__.co_varnames:
        pytest.skip("OpenCLIP 3.3 needs webdataset <= 0.2.86")
    pairs = [(f"{prefix}{number // 4:06}", number) for number in range(16)]
    members = [
        member
        for key, number in pairs
        for member in ((f"{key}.jpg", picture()), (f"{key}.txt", b"caption %d" % number))
    ]
    (tmp_path / "0.tar.gz").write_bytes(gzip.compress(tar_bytes(members)))
    assert trained([str(tmp_path / "0.tar.gz")]) == 16
    report = repair_shards(str(tmp_path / "0.tar.gz"), tmp_path / "out")
    assert trained([str(tmp_path / "out/0.tar")]) == 16
    assert (report.total("samples_written"), report.merged("dropped")) == (16, {})
    assert report.merged("fixed")["samples with the key of another one kept apart"] == 12
    key = f"{prefix}000000".strip("/")
    assert f"new keys, for example: {key} is {key}-2 now" in str(report)
