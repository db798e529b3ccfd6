"""Loaders without torch, for the questions of --check."""

import os
import random
import tarfile
import threading

import numpy


def keys_of(urls):
    keys = []
    for url in urls:
        with tarfile.open(url) as tar:
            keys += [member.name[:-4] for member in tar if member.name.endswith(".txt")]
    return keys


class Resumes:
    """Shuffles by its epoch, and continues where it was."""

    def __init__(self, urls):
        self.urls, self.epoch, self.position = urls, 0, 0

    def order(self):
        keys = keys_of(self.urls)
        random.Random(self.epoch).shuffle(keys)
        return keys

    def __iter__(self):
        for key in self.order()[self.position :]:
            self.position += 1
            yield {"__key__": key}
        self.epoch, self.position = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state):
        self.epoch, self.position = state["epoch"], state["position"]


class IgnoresItsState(Resumes):
    def load_state_dict(self, state):
        pass


class ForgetsItsEpoch(Resumes):
    def state_dict(self):
        return {"epoch": 0, "position": self.position}


class OneBehind(Resumes):
    def state_dict(self):
        return {"epoch": self.epoch, "position": max(0, self.position - 1)}


class OneAhead(Resumes):
    def state_dict(self):
        return {"epoch": self.epoch, "position": self.position + 1 if self.position else 0}


class OnlyOnce(Resumes):
    """Counts from the last resume on: the second one begins the epoch again."""

    def __iter__(self):
        keys, self.done = self.order()[self.position :], 0
        for key in keys:
            self.done += 1
            yield {"__key__": key}
        self.epoch, self.position, self.done = self.epoch + 1, 0, 0

    done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "position": self.done}


class KeepsItsPosition(Resumes):
    """The epoch after a resume begins at the old position."""

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.start = self.position

    start = 0

    def __iter__(self):
        for key in self.order()[max(self.start, self.position) :]:
            self.position += 1
            yield {"__key__": key}
        self.epoch, self.position = self.epoch + 1, 0


class NeverAgain(Resumes):
    """Leaves its position at the end of the first epoch."""

    def __iter__(self):
        for key in self.order()[self.position :]:
            self.position += 1
            yield {"__key__": key}


class OnlyRankZero(Resumes):
    """Has a state on the first rank only."""

    def __init__(self, urls):
        super().__init__(urls[ranks()[0] :: ranks()[1]])

    def state_dict(self):
        return {} if ranks()[0] else super().state_dict()

    def load_state_dict(self, state):
        if state:
            super().load_state_dict(state)


class SharesItsState(Resumes):
    def __init__(self, urls):
        super().__init__(urls)
        self.state = {"epoch": 0, "position": 0}

    def __iter__(self):
        self.epoch = self.state["epoch"]
        for key in self.order()[self.state["position"] :]:
            self.state["position"] += 1
            yield {"__key__": key}
        self.state.update(epoch=self.state["epoch"] + 1, position=0)

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


class HasNoPickle(Resumes):
    def state_dict(self):
        return {**super().state_dict(), "key": lambda: 0}


class RefusesItsState(Resumes):
    def load_state_dict(self, state):
        self.epoch, self.position = state["epoch"], state["index"]


class OwnOrder(Resumes):
    """Not reproducible, and yet it resumes: the state has the order."""

    keys = None

    def order(self):
        if self.keys is None:
            self.keys = keys_of(self.urls)
            random.SystemRandom().shuffle(self.keys)
        return self.keys

    def __iter__(self):
        yield from super().__iter__()
        self.keys = None

    def state_dict(self):
        return {**super().state_dict(), "keys": None if self.keys is None else [*self.keys]}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.keys = state["keys"]


class OwnOrderLost(OwnOrder):
    """Not reproducible, and the state has the position only: samples are repeated and lost."""

    def state_dict(self):
        return {"epoch": self.epoch, "position": self.position, "keys": None}


class Disturbed(Resumes):
    """Taking a state skips a sample."""

    def state_dict(self):
        if self.position:
            self.skip = True
        return super().state_dict()

    skip = False

    def __iter__(self):
        for key in self.order()[self.position :]:
            self.position += 1
            if self.skip:
                self.skip = False
                continue
            yield {"__key__": key}
        self.epoch, self.position = self.epoch + 1, 0


class Captions(Resumes):
    """Equal content under no key, and duplicates in it, are no repeats."""

    def __iter__(self):
        for item in super().__iter__():
            yield "the same caption" if int(item["__key__"]) % 2 else f"caption {item['__key__']}"


class Hangs(Resumes):
    def load_state_dict(self, state):
        super().load_state_dict(state)
        threading.Event().wait()


class HangsWhenSaved(Resumes):
    def state_dict(self):
        threading.Event().wait()


class NoState:
    def __init__(self, urls):
        self.keys = keys_of(urls)

    def __iter__(self):
        return ({"__key__": key} for key in self.keys)


def ranks():
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def split_by_environment(urls):
    rank, count = ranks()
    return NoState(urls[rank::count])


def one_shard_twice(urls):
    rank, count = ranks()
    return NoState(
        urls[: len(urls) // 2 + 1] if rank == 0 and count > 1 else urls[rank * len(urls) // 2 :]
    )


def one_shard_never(urls):
    rank, count = ranks()
    return NoState(urls[rank:-1:count] if count > 1 else urls)


def unequal(urls):
    rank, count = ranks()
    return NoState(urls[:3] if rank == 0 and count > 1 else urls[3 * rank :])


def never_the_last(urls):
    """No rank reads the last shard, and one process alone does not, either."""
    rank, count = ranks()
    return NoState(urls[:-1][rank::count])


def forgets_each_last(urls):
    """Yields a sample when the next one begins: the last one of a shard is lost."""
    rank, count = ranks()
    loader = NoState([])
    loader.keys = [key for url in urls[rank::count] for key in keys_of([url])[:-1]]
    return loader


class ForgetsItsBuffer(Resumes):
    """Shuffles through a buffer that its state leaves out; gives bare vectors."""

    def __iter__(self):
        rng, buffer, keys = random.Random(self.epoch), [], keys_of(self.urls)
        for key in keys[self.position :]:
            self.position += 1
            buffer.append(key)
            if len(buffer) > 16:
                yield numpy.full(300, int(buffer.pop(rng.randrange(17))))
        yield from (numpy.full(300, int(key)) for key in buffer)
        self.epoch, self.position = self.epoch + 1, 0


class Noise(Resumes):
    """Gives nothing by which a sample is recognized."""

    def __iter__(self):
        for _ in super().__iter__():
            yield random.random(), "a caption"
