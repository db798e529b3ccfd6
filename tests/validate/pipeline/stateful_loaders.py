"""Loaders of torch and torchdata with a state, correct and faulty.

They test whether --check sees if a loader resumes.
"""

import itertools
import random
import time

import torch
from torch.utils.data import DataLoader, RandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.validate.pipeline.torch_loaders import Items, Stream, samples_of


class StatefulStream(Stream):
    """A position in each worker."""

    def __init__(self, urls):
        super().__init__(urls)
        self.position = 0

    def __iter__(self):
        for key, picture, text in samples_of(self.mine())[self.position :]:
            self.position += 1
            yield self.made(key, picture, text)
        self.position = 0

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


def stateful_right(urls):
    return StatefulDataLoader(StatefulStream(urls), batch_size=5, num_workers=2)


def stateful_of_plain_stream(urls):
    """torchdata skips what was read: slow, and right."""
    return StatefulDataLoader(Stream(urls), batch_size=5, num_workers=2)


def stateful_map(urls):
    return StatefulDataLoader(Items(urls), batch_size=5, num_workers=2, shuffle=True)


def stateful_map_alone(urls):
    return StatefulDataLoader(Items(urls), batch_size=5, shuffle=True)


class StaysAtItsState(StatefulStream):
    def load_state_dict(self, state):
        pass


def stateful_ignored(urls):
    return StatefulDataLoader(StaysAtItsState(urls), batch_size=5, num_workers=2)


class TimeSampler(RandomSampler):
    """Another order in each process, and no state of it."""

    def __iter__(self):
        order = list(range(len(self.data_source)))
        random.Random(time.time_ns()).shuffle(order)
        return iter(order)


def stateful_by_time(urls):
    items = Items(urls)
    return StatefulDataLoader(items, batch_size=5, num_workers=2, sampler=TimeSampler(items))


class ForgetsTheTurn(RandomSampler):
    """Shuffles by the number of the epoch, which its state leaves out."""

    turn, place = 0, 0

    def __iter__(self):
        order = [*range(len(self.data_source))]
        random.Random(self.turn).shuffle(order)
        while self.place < len(order):
            self.place += 1
            yield order[self.place - 1]
        self.turn, self.place = self.turn + 1, 0

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


def sampler_forgets_the_turn(urls):
    items = Items(urls)
    return StatefulDataLoader(items, batch_size=5, sampler=ForgetsTheTurn(items))


def dataset_state_with_workers(urls):
    """The dataset's state, while the workers read copies of it."""
    return DataLoader(StatefulStream(urls), batch_size=5, num_workers=2)


def dataset_state_alone(urls):
    return DataLoader(StatefulStream(urls), batch_size=1)


class Prefetching:
    """Reads two batches ahead; its state is that of the dataset."""

    def __init__(self, urls):
        self.dataset = StatefulStream(urls)

    def __iter__(self):
        ahead = []
        for batch in DataLoader(self.dataset, batch_size=4):
            ahead.append(batch)
            if len(ahead) > 2:
                yield ahead.pop(0)
        yield from ahead

    def state_dict(self):
        return self.dataset.state_dict()

    def load_state_dict(self, state):
        self.dataset.load_state_dict(state)


def prefetching(urls):
    return Prefetching(urls)


class Skips:
    """Seeds the order by the epoch, and skips the batches that were read."""

    def __init__(self, urls):
        self.items, self.epoch, self.done = Items(urls), 0, 0

    def __iter__(self):
        order = torch.Generator().manual_seed(self.epoch)
        loader = DataLoader(self.items, batch_size=5, shuffle=True, generator=order, num_workers=1)
        for batch in itertools.islice(loader, self.done, None):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


class SkipsWithoutSeed(Skips):
    """One generator for all epochs, whose state is not saved."""

    def __init__(self, urls):
        super().__init__(urls)
        self.order = torch.Generator().manual_seed(0)

    def __iter__(self):
        loader = DataLoader(self.items, batch_size=5, shuffle=True, generator=self.order)
        for batch in itertools.islice(loader, self.done, None):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0
