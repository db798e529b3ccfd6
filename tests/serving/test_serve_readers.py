"""Unmodified readers over HTTP get from a view, of which nothing was written, what they get from the files of a cut."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.serving.served import WHERE, Running, served_set, serving, write_set

# webdataset leaves its files to the garbage collector.
pytestmark = [pytest.mark.webdataset, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    with served_set(folder) as running:
        yield running


@pytest.fixture(scope="module")
def pairs(folder: Path, server: Running) -> tuple[list[str], list[str]]:
    """The served tars, and the files of the cut."""
    return (
        [f"{server.url}{number:06d}.tar" for number in range(3)],
        [str(folder / "cut" / f"{number:05d}.tar") for number in range(3)],
    )


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "__url__" and not name.startswith("__local")}


def test_webdataset(pairs: tuple[list[str], list[str]]):
    """Of the version that is installed: the tests run next to 0.2.86 and next to 1.x."""
    wds = pytest.importorskip("webdataset")
    served, written = ([plain(row) for row in wds.WebDataset(urls, shardshuffle=False)] for urls in pairs)
    assert served == written
    assert len(served) == 36


def test_webdataset_reads_all_samples_of_resharded_tars_in_their_order(
    folder: Path, pairs: tuple[list[str], list[str]]
):
    wds = pytest.importorskip("webdataset")
    with serving(folder / "in", "--ledger", folder / "scores", "--where", WHERE, "--samples", "5") as resharded:
        urls = [f"{resharded.url}{number:06d}.tar" for number in range(8)]
        served, written = (
            [plain(row) for row in wds.WebDataset(each, shardshuffle=False)] for each in (urls, pairs[1])
        )
    assert served == written


def test_openclip_s_own_loader(pairs: tuple[list[str], list[str]], server: Running):
    data = pytest.importorskip("open_clip_train.data")
    torch = pytest.importorskip("torch")
    wds = pytest.importorskip("webdataset")
    if "eof_value" in wds.tariterators.tar_file_expander.__code__.co_varnames:
        pytest.skip("OpenCLIP 3.3 needs webdataset <= 0.2.86")

    def seen(train_data: str) -> list[tuple[str, str]]:
        """Return digests of image and caption; their order is random."""
        arguments = SimpleNamespace(
            train_data=train_data, train_num_samples=36, train_data_upsampling_factors=None, dataset_resampled=False,
            seed=0, workers=0, batch_size=6, world_size=1,
        )  # fmt: skip

        def pixels(image: Any) -> Any:
            return torch.tensor(list(image.convert("RGB").resize((4, 4)).tobytes()))

        def tokenizer(text: str) -> Any:
            return torch.tensor([list(text.ljust(77).encode())])

        info = data.get_wds_dataset(arguments, pixels, is_train=True, epoch=0, tokenizer=tokenizer)
        return sorted(
            (str(image.tolist()), str(text.tolist()))
            for images, texts in info.dataloader
            for image, text in zip(images, texts, strict=True)
        )

    served, written = seen(server.pattern), seen("::".join(pairs[1]))
    assert served == written
    assert len(served) == 36


def test_datasets_streaming(pairs: tuple[list[str], list[str]], tmp_path: Path):
    datasets = pytest.importorskip("datasets")

    def rows(urls: list[str]) -> list[dict[str, Any]]:
        found = datasets.load_dataset(
            "webdataset", data_files=urls, split="train", streaming=True, cache_dir=str(tmp_path)
        )
        return [plain(row) for row in found.decode(False)]

    served, written = map(rows, pairs)
    assert [{**row, "jpg": row["jpg"]["bytes"]} for row in served] == [
        {**row, "jpg": row["jpg"]["bytes"]} for row in written
    ]
    assert len(served) == 36


_RAY = """
import hashlib, json, logging, sys
import ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.CRITICAL)
ray.data.DataContext.get_current().enable_progress_bars = False
rows = ray.data.read_webdataset(json.loads(sys.argv[1]), decoder=False).take_all()
rows = [[str(row["__key__"]), row["txt"], hashlib.sha256(row["jpg"]).hexdigest()] for row in rows]
print(json.dumps(sorted(rows)))
"""


@pytest.mark.deep
def test_ray_data(pairs: tuple[list[str], list[str]]):
    python = sys.executable if find_spec("ray") else os.environ.get("WDSFLOW_RAY_PYTHON", "")
    if not python:
        pytest.skip("Ray is not installed; WDSFLOW_RAY_PYTHON names a Python that has it")

    def rows(urls: list[str]) -> list[list[str]]:
        done = subprocess.run([python, "-c", _RAY, json.dumps(urls)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        found: list[list[str]] = json.loads(done.stdout.splitlines()[-1])
        return found

    served, written = map(rows, pairs)
    assert served == written
    assert len(served) == 36


@pytest.mark.deep
def test_our_own_feed(pairs: tuple[list[str], list[str]]):
    pytest.importorskip("torch")
    from tests.training.test_loader import all_texts, loader

    served, written = (
        sorted(all_texts(loader("::".join(urls), schedule="balanced", train=False, workers=1))) for urls in pairs
    )
    assert served == written
    assert len(served) == 36
