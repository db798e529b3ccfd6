"""Datasets of other kinds, as people write them."""

import io
import tarfile

import torch
from PIL import Image


class Pairs(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """A map-style dataset: it lists the tars when it is made."""

    def __init__(self, urls):
        self.items = []
        for url in urls:
            with tarfile.open(url) as tar:
                files = {
                    member.name: tar.extractfile(member).read() for member in tar if member.isfile()
                }
            for name, data in files.items():
                key, _, field = name.partition(".")
                if field == "jpg" and f"{key}.txt" in files:
                    self.items.append((data, files[f"{key}.txt"]))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        image, text = self.items[index]
        return Image.open(io.BytesIO(image)).convert("RGB").size[0], text.decode()


class ByKey(Pairs):
    """Gives its items by key, and iterates over its keys, as a mapping does."""

    def __init__(self, urls):
        super().__init__(urls)
        self.by_key = {f"key{index}": item for index, item in enumerate(self.items)}

    def keys(self):
        return self.by_key.keys()

    def __iter__(self):
        return iter(self.by_key)

    def __getitem__(self, key):
        return 1, self.by_key[key][1].decode()


def keyed_loader(urls):
    data = ByKey(urls)
    return torch.utils.data.DataLoader(data, batch_size=4, sampler=list(data.keys()))


def views(urls):
    """One view on samples with an image, and one on those with a caption: most come out twice."""
    import webdataset as wds
    from webdataset.mix import RoundRobin

    kinds = ("jpg", "txt")
    return RoundRobin(
        [
            wds.WebDataset(urls, shardshuffle=False).select(
                lambda sample, kind=kind: kind in sample
            )
            for kind in kinds
        ],
        longest=True,
    )


def halves(urls):
    """It needs two shards."""
    import webdataset as wds
    from webdataset.mix import RoundRobin

    half = len(urls) // 2
    parts = (urls[:half], urls[half:])
    return RoundRobin([wds.WebDataset(part, shardshuffle=False) for part in parts], longest=True)


def pairs_loader(urls):
    return torch.utils.data.DataLoader(
        Pairs(urls), batch_size=4, shuffle=True, drop_last=True, num_workers=2
    )


class Forgiving(Pairs):
    """Gives None for what it does not take."""

    def __getitem__(self, index):
        _, text = self.items[index]
        return None if len(text) % 5 == 0 else text.decode()


def without_none(batch):
    return torch.stack([torch.tensor(len(text)) for text in batch if text is not None])


def collated(urls):
    return torch.utils.data.DataLoader(Forgiving(urls), batch_size=8, collate_fn=without_none)


def collated_whole(urls):
    return torch.utils.data.DataLoader(
        Forgiving(urls), batch_size=8, collate_fn=without_none, drop_last=True
    )


def listed(urls):
    keep = lambda batch: [{"text": text} for text in batch if text is not None]  # noqa: E731
    return torch.utils.data.DataLoader(Forgiving(urls), batch_size=8, collate_fn=keep)


def collated_inside(urls):
    import webdataset as wds

    texts = wds.WebDataset(urls, shardshuffle=False).select(lambda sample: "txt" in sample)
    return texts.map(
        lambda sample: sample["txt"].decode() if len(sample["txt"]) % 5 else None
    ).batched(8, collation_fn=without_none)


def unfit(urls):
    """Its collate function refuses some, in a batch as well."""

    def stack(batch):
        return torch.stack(
            [torch.zeros(len(text) if text and len(text) > 9 else 1) for text in batch]
        )

    return torch.utils.data.DataLoader(Forgiving(urls), batch_size=8, collate_fn=stack)


def batch_sampler(urls):
    data = Pairs(urls)
    batches = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(data), 3, False)
    return torch.utils.data.DataLoader(data, batch_sampler=batches)


def streaming(urls):
    import datasets

    return datasets.load_dataset(
        "webdataset", data_files={"train": urls}, split="train", streaming=True
    )


def stored(urls):
    import datasets

    data = datasets.load_dataset("webdataset", data_files={"train": urls}, split="train")
    return data.filter(lambda row: row["txt"] is not None)


def splits(urls):
    import datasets

    return datasets.load_dataset("webdataset", data_files={"train": urls})


def stored_loader(urls):
    return torch.utils.data.DataLoader(stored(urls), batch_size=4, collate_fn=list)


BATCHED = {
    "keyed_loader",
    "collated",
    "collated_whole",
    "listed",
    "collated_inside",
    "unfit",
    "pairs_loader",
    "batch_sampler",
    "stored_loader",
}
