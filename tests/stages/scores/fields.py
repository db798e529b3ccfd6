"""Fields that count what is read of them."""

from wdsflow.stages.scores import Held, View, ViewOptions, make_score


class Counting(Held):
    """Fields in memory; ``reads`` are (name, start, size)."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.reads = []

    def read(self, name, start, size):
        self.reads.append((name, start, size))
        return super().read(name, start, size)


def made(name, **settings):
    """Return a score; of Any kind for type checkers."""
    return make_score(name, **settings)


def score(name, fields, options=None, **settings):
    """Return a score of a sample."""
    return make_score(name, **settings).score(View(fields, options or ViewOptions()))


def of_text(name, text, **settings):
    """Return a score of a caption."""
    return score(name, {"txt": text.encode()}, **settings)
