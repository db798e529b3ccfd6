"""All commands agree on which images decode, in any format that Pillow opens.

None runs a program for an image.
"""

import json
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

import open_clip
from PIL import EpsImagePlugin, Image

import wdsflow
from tests.filtering.commands import run
from tests.rare_images import RARE, deep_png, eps, iptc
from tests.training.shards import arguments, as_text, plain, texts, write_tar
from wdsflow import FeedOptions

IMAGES = {name: make() for name, make in RARE.items()} | {
    "png16": deep_png(),
    "iptc": iptc(deep_png()),
}
IMAGES |= {f"half-{name}": data[: len(data) // 2] for name, data in IMAGES.items()}
IMAGES |= {"eps": eps(), "iptc-eps": iptc(eps()), "text": b"<html>no image</html>"}


@pytest.fixture
def shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write a shard with all images as ``.jpg``.

    At the end, checks that Pillow has not started its program for PostScript.
    """
    program, mark = tmp_path / "bin" / "gs", tmp_path / "gs was run"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\necho 10.0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    monkeypatch.chdir(tmp_path)
    members = [
        (f"{key}.{name}", data)
        for key, image in IMAGES.items()
        for name, data in (("jpg", image), ("txt", key.encode()))
    ]
    yield write_tar(tmp_path / "0.tar", members)
    assert not mark.exists()


def decodes(data: bytes) -> bool:
    """Return whether Pillow decodes an image, on a machine without Ghostscript."""
    known, EpsImagePlugin.gs_binary = EpsImagePlugin.gs_binary, False
    try:
        Image.open(BytesIO(data)).convert("RGB")
    except Exception:
        return False
    finally:
        EpsImagePlugin.gs_binary = known
    return True


def keys_in(url: object) -> set[str]:
    shown = json.loads(run("inspect", url, "--keys", "100", "--json").out)
    return {sample["key"] for sample in shown["first_samples"]}


def test_commands_agree_on_which_images_decode(shard: Path):
    usable = {key for key, data in IMAGES.items() if decodes(data)}
    assert {"psd", "dcx", "xpm", "fli", "png16", "iptc"} <= usable
    assert not {"eps", "iptc-eps", "text"} & usable
    done = run("validate", shard, "--level", "full", "--for", "open-clip-3.3", "--format", "json")
    (verdict,) = json.loads(done.out)["verdicts"]
    assert (verdict["usable"], verdict["exact"]) == (len(usable), True)
    run("filter", shard, "-o", "filtered", "--where", "brightness >= 0", "--jobs", "0")
    assert keys_in("filtered") == usable
    run("repair", shard, "-o", "repaired", "--drop-bad", "--jobs", "1")
    assert keys_in("repaired") == usable


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("decode", "known"), [("fast", True), ("exact", True), ("reference", True), ("exact", False)]
)
def test_the_feed_trains_on_what_openclip_decodes(shard: Path, decode: str, known: bool):
    """``known``: the transform is one of OpenCLIP's, which the feed computes itself."""
    usable = {key for key, data in IMAGES.items() if decodes(data)}
    transform = open_clip.image_transform(16, is_train=False) if known else plain
    options = FeedOptions(decode=decode, schedule="balanced", decoders=1, status_every=0.0)
    args = arguments(train_data=str(shard), workers=1, batch_size=len(usable))
    loader = wdsflow.get_data(args, (transform, transform), tokenizer=as_text, options=options)[
        "train"
    ].dataloader
    fed = [text if isinstance(text, str) else text[0] for batch in loader for text in texts(batch)]
    assert set(fed) == usable
