"""A script that takes long to import, also in each worker that is not forked."""

import time

from torch.utils.data import DataLoader, Dataset

time.sleep(12)


class Captions(Dataset[object]):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return f"caption {index}"


def make(urls):
    return DataLoader(Captions(), batch_size=2, num_workers=1)
