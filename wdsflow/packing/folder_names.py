"""Names of folders by which readers find no shards in them."""

import re

# Braces and globs stand for many names, :: separates sources, @ begins a list, and pipe: a command.
_MEANS_MORE = re.compile(r"[{}*?\[\]]|::|^@|^pipe:")


class PatternName(ValueError):
    """A folder name that readers of shards would interpret as a pattern, list or command.

    ``instead``: a similar name that they take as it is.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name}: readers of shards would not take this for the name of a folder:"
            " leave out {, }, *, ?, [, ] and ::, and do not begin it with @ or pipe:"
        )
        self.instead = _MEANS_MORE.sub("_", name)


def refuse_pattern(name: str) -> None:
    """Raise PatternName if readers would take a folder for a pattern, a list or a command.

    The folder is given as a path or url.

    >>> refuse_pattern("out{1..2}")
    Traceback (most recent call last):
    wdsflow.packing.folder_names.PatternName: out{1..2}: readers of shards would not take this for
    the name of a folder: \
leave out {, }, *, ?, [, ] and ::, and do not begin it with @ or pipe:
    """
    if _MEANS_MORE.search(name):
        raise PatternName(name)
