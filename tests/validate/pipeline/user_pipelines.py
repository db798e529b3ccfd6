"""Pipelines as people write them; all end after one pass.

``BATCHED`` names those that yield batches.
"""

import io
import json
import tarfile

import torch
import webdataset as wds
from PIL import Image

IMAGES = "jpg;png;jpeg;webp"
calm = wds.ignore_and_continue


def tolerant(urls):
    dataset = wds.WebDataset(urls, handler=calm, shardshuffle=False)
    return dataset.decode("pil", handler=calm).to_tuple(IMAGES, "json", handler=calm)


def strict(urls):
    return wds.WebDataset(urls, shardshuffle=False).decode("pil").to_tuple(IMAGES, "txt")


def has_both(sample):
    return "txt" in sample and any(name in sample for name in IMAGES.split(";"))


def selecting(urls):
    return wds.DataPipeline(
        wds.SimpleShardList(urls),
        wds.split_by_worker,
        wds.tarfile_to_samples(handler=calm),
        wds.select(has_both),
        wds.decode("pilrgb", handler=calm),
        wds.rename(image=IMAGES, text="txt"),
        wds.shuffle(20),
        wds.to_tuple("image", "text"),
        wds.batched(4, collation_fn=list, partial=False),
    )


def caption_of(sample):
    return sample["image"], sample["json"]["caption"].strip()


def json_captions(urls):
    dataset = wds.WebDataset(urls, handler=calm, shardshuffle=False).decode("pil", handler=calm)
    return dataset.rename(image=IMAGES, json="json", handler=calm).map(caption_of, handler=calm)


def short_captions(urls):
    dataset = wds.WebDataset(urls, handler=calm, shardshuffle=False)
    return dataset.select(lambda sample: len(sample.get("txt", b"")) % 3 > 0)


def stops_at_errors(urls):
    dataset = wds.WebDataset(urls, handler=calm, shardshuffle=False)
    return dataset.decode("pil", handler=wds.ignore_and_stop).to_tuple(IMAGES, "txt", handler=calm)


def stops_or_raises(urls):
    dataset = wds.WebDataset(urls, shardshuffle=False).decode("pil", handler=wds.ignore_and_stop)
    return dataset.to_tuple(IMAGES, "txt")


def to_tensor(sample):
    image = sample["image"].convert("RGB").resize((4, 4))
    return torch.tensor(list(image.getdata())), sample["text"]


def composed(urls):
    def only_text(source):
        for sample in source:
            if sample.get("txt", b"").strip():
                yield sample

    dataset = wds.WebDataset(urls, handler=calm, shardshuffle=False).compose(only_text)
    dataset = dataset.rename(image=IMAGES, text="txt", handler=calm).decode("pil", handler=calm)
    return dataset.map(to_tensor, handler=calm).batched(3)


def web_loader(urls):
    dataset = wds.WebDataset(urls, handler=calm, shardshuffle=False).decode("pil", handler=calm)
    dataset = dataset.to_tuple(IMAGES, "txt", handler=calm).batched(2, collation_fn=list)
    return (
        wds.WebLoader(dataset, batch_size=None, num_workers=0)
        .unlisted()
        .shuffle(5)
        .batched(3, collation_fn=list)
    )


class Tars(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    """Reads tars without webdataset."""

    def __init__(self, urls):
        self.urls = urls

    def __iter__(self):
        for url in self.urls:
            try:
                with tarfile.open(url) as tar:
                    yield from self.pairs(tar)
            except (OSError, tarfile.TarError, EOFError):
                continue

    def pairs(self, tar):
        image = None
        for member in tar:
            if not member.isfile():
                continue
            if member.name.endswith((".jpg", ".png")):
                image = tar.extractfile(member).read()
            elif member.name.endswith(".txt") and image is not None:
                try:
                    Image.open(io.BytesIO(image)).convert("RGB")
                    yield image, tar.extractfile(member).read().decode()
                except (OSError, ValueError, SyntaxError):
                    continue


def plain(urls):
    return Tars(urls)


def loader(urls):
    return torch.utils.data.DataLoader(Tars(urls), batch_size=3, collate_fn=list, drop_last=True)


def loader_that_stacks(urls):
    dataset = (
        wds.WebDataset(urls, handler=calm, shardshuffle=False)
        .select(has_both)
        .decode("pil", handler=calm)
    )
    dataset = dataset.rename(image=IMAGES, text="txt").map(
        lambda s: torch.zeros(s["image"].size[0]), handler=calm
    )
    return torch.utils.data.DataLoader(dataset, batch_size=2)


def generator(urls):
    for sample in wds.WebDataset(urls, handler=calm, shardshuffle=False):
        if "json" in sample:
            yield json.loads(sample["json"])["caption"]


BATCHED = {"selecting", "composed", "web_loader", "loader", "loader_that_stacks"}


def many_reasons(urls):
    """Captions that cannot be decoded, are too short, or belong to no picture."""
    dataset = wds.WebDataset(urls, shardshuffle=False, handler=calm)
    dataset = dataset.map(lambda sample: (sample["jpg"], sample["txt"].decode()), handler=calm)
    return dataset.select(lambda pair: len(pair[1]) > 3)


def refuses(caption):
    raise ValueError(caption)


def warns(urls):
    dataset = wds.WebDataset(urls, shardshuffle=False, handler=calm)
    return dataset.map(lambda sample: refuses(io.StringIO()), handler=wds.warn_and_continue)
