"""The end of commands that write shards: how to train on them, and how to check them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from wdsflow.records.train_data import train_data_lines
from wdsflow.records.working_folder import store_of
from wdsflow.text.shell import quote_path


def as_folder(out: Path) -> str:
    """Return an output folder as an argument of ``validate``: the url of one ends in a slash."""
    return f"{out}/" if store_of(out) else str(out)


def new_shards_lines(out: Path, left_out: Sequence[str] = ()) -> Iterator[str]:
    """Yield how to train on the shards of a folder, and how to check them.

    ``left_out``: names of outputs that do not exist, because no sample was kept.
    """
    url = as_folder(out)
    yield from train_data_lines(out, url, left_out)
    yield f"next: wdsflow validate {quote_path(url)}"
