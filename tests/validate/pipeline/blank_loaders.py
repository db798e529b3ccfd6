"""Loaders of torch of which members of batches hold no sample, or show no key."""

import torch

from tests.validate.pipeline.small_pipelines import read


class Gaps:
    """Gives None for every fourth sample."""

    def __init__(self, urls):
        self.items = list(read(urls))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return None if index % 4 == 3 else self.items[index]["jpg"].decode("latin-1")


def gaps_loader(urls, collate):
    def without_none(batch):
        return collate([text for text in batch if text is not None])

    return torch.utils.data.DataLoader(Gaps(urls), batch_size=10, collate_fn=without_none)


def texts(urls):
    return gaps_loader(urls, list)


def collated_texts(urls):
    return gaps_loader(urls, torch.utils.data.default_collate)


def beside_a_number(urls):
    return gaps_loader(
        urls, lambda batch: {"length": torch.tensor([*map(len, batch)]), "text": batch, "epoch": 0}
    )


def nested_beside_a_number(urls):
    return gaps_loader(urls, lambda batch: {"data": {"text": batch}, "n": len(batch)})


def files(urls):
    return gaps_loader(urls, lambda batch: [text.encode() for text in batch])


def joined(urls):
    return gaps_loader(urls, " ".join)


def vectors(urls):
    lengths = [len(sample["jpg"]) for sample in read(urls)]
    return (torch.tensor(lengths[start : start + 10]) for start in range(0, len(lengths), 10))
