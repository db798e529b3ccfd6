"""Why the feed loses samples is what its reader has predicted, in the same words."""

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

import open_clip
import torch

from tests.training.shards import arguments, as_text, jpeg, samples, write_tar
from wdsflow import FeedOptions
from wdsflow.readers import scan_options
from wdsflow.scan.evidence import Evidence
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.source.base import single_shard
from wdsflow.training import get_wds_dataset
from wdsflow.validate.chosen_readers import feed_of
from wdsflow.validate.verdicts.judge import judge

# The feed names the error of a decoder; the reader only the field.
_OF_IMAGES = {
    "truncated": "bad-image",
    "undecodable": "bad-image",
    "not-an-image": "bad-image",
    "too-many-pixels": "too-large",
}
_JSON = b'{"alt": "a dog"}'
_LATIN = "café".encode("latin-1")


def hostile_shard(path: Path) -> Path:
    """Write a shard with each fault that costs the feed a sample, and some that cost it nothing."""
    faults: list[dict[str, bytes]] = [
        {"jpg": jpeg(1), "txt": b""},
        {"jpg": jpeg(2), "txt": b" \n"},
        {"jpg": jpeg(3), "txt": _LATIN},
        {"jpg": jpeg(4), "json": b"{"},
        {"jpg": jpeg(5), "json": b""},
        {"jpg": jpeg(6), "json": b'{"alt": ""}'},
        {"jpg": jpeg(7), "json": b'{"alt": "a cat"}'},
        {"jpg": jpeg(8), "json": b'{"alt": ["", "a cat"]}'},
        {"jpg": jpeg(9), "json": b'{"meta": {"alt": "a cat"}}'},
        # Several captions: the last one tried gives the reason.
        {"jpg": jpeg(10), "txt": b"", "json": b"{"},
        {"jpg": jpeg(11), "txt": _LATIN, "json": b'{"alt": ""}'},
        {"jpg": jpeg(12), "txt": b"", "json": b'{"alt": "a cat"}'},
        {"jpg": jpeg(13)},
        {"txt": b"a dog"},
        {"json": b"{}"},
        {"jpg": jpeg(14)[:300], "txt": b"a dog", "json": _JSON},
        {"jpg": b"<html>404</html>", "txt": b"a dog", "json": _JSON},
        {"jpg": b"", "txt": b"a dog", "json": _JSON},
        {"jpg": jpeg(15), "txt": b"a dog", "json": _JSON, "__bad__": b"1"},
    ]
    members = samples(0, 8)
    for number, fields in enumerate(faults):
        members += [(f"fault{number:02d}.{field}", data) for field, data in fields.items()]
    return write_tar(path, members)


def counted_by_feed(shard: Path, caption: str | None) -> Counter[str]:
    """Return the samples that the feed loses, by the reasons that it counts."""
    args = arguments(
        train_data=str(shard), val_data=str(shard), workers=1, batch_size=4, world_size=1, rank=0
    )
    torch.manual_seed(0)
    options = FeedOptions(status_every=0, caption=caption)
    preprocess = open_clip.image_transform(32, is_train=False)
    loader = get_wds_dataset(args, preprocess, False, tokenizer=as_text, options=options).dataloader
    for _ in loader:
        pass
    counts = Counter[str]()
    for reason in loader.tally.reasons:
        slug = reason.first.reason
        counts[_OF_IMAGES.get(slug, slug)] += reason.count
    return counts


def predicted(shard: Path, caption: str | None) -> Counter[str]:
    """Return the samples that the reader of the feed predicts to be lost, by reason."""
    url = single_shard(str(shard))
    readers = feed_of(("--train-data", str(shard)), 1, caption).readers
    scanned = scan_shard(url, scan_options("full", readers, [url]))
    counts = Counter[str]()
    for reason in judge(Evidence("full", [scanned]), readers[0]).reasons:
        counts[reason.slug] += reason.count
    return counts


@pytest.mark.parametrize(
    "caption", [None, "txt", "json:alt", "txt|json:alt", "json:alt|txt", "json:meta.alt;alt"]
)
def test_the_feed_loses_what_its_reader_predicts_for_the_same_reasons(
    caption: str | None, tmp_path: Path
) -> None:
    shard = hostile_shard(tmp_path / "0.tar")
    counted = counted_by_feed(shard, caption)
    assert counted == predicted(shard, caption)
    assert {"no-image", "bad-image", "marked-bad"} <= counted.keys()
