"""A script that reads its loader when it is imported, as one without a main guard does."""

from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset[object]):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index


def make(urls):
    return DataLoader(Numbers(), batch_size=2, num_workers=1)


for _ in make([]):
    pass
