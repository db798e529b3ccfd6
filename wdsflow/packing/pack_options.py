"""The options of ``pack``, separate from its code: the command line imports them for each help."""

from dataclasses import dataclass

from wdsflow.memory.sizes import parse_size
from wdsflow.shards.thread_jobs import Begin
from wdsflow.text.options import option, restart_option

# 10,000 rows give a shard to each of OpenCLIP's four workers.
USUAL_SAMPLES = 2500


@dataclass(frozen=True, kw_only=True)
class PackRequest:
    """The arguments of a pack.

    ``begin`` is called with the number of shards; its result is called after each shard.
    """

    image: str | None = option(
        None,
        "Column with paths or bytes of images or videos, one or a list; known layouts need none.",
        metavar="COLUMN",
    )
    caption: str | None = option(
        None,
        "Column with captions; by default caption, text or title. '' for none.",
        metavar="COLUMN",
    )
    image_token: str | None = option(
        None,
        "Text that stands for an image or video in captions, removed from them; Data-Juicer's image_special_token."
        " By default <__dj__image>, <__dj__video>, <image> and others are.",
        metavar="TEXT",
    )
    key: str | None = option(
        None, "Column with keys; by default the number of the row.", metavar="COLUMN"
    )
    root: str | None = option(
        None,
        "Folder that holds all files, or its url; by default that of the table. Files outside of it are refused.",
        metavar="DIR",
    )
    samples: int | None = option(
        None,
        "At most N samples in a shard; all shards equal. By default 2,500.",
        metavar="N",
        least=1,
    )
    size: int | str | None = option(
        None, "At most so many bytes in a shard, such as 1GB.", metavar="SIZE"
    )
    shuffle: int | None = option(
        None, "Shuffle all rows; the same seed gives the same order.", metavar="SEED"
    )
    dry_run: bool = option(
        False, "Read the table and the first bytes of all files, and write nothing."
    )
    restart: bool = restart_option()
    jobs: int = option(2, "Shards written at once.", metavar="N", least=1)
    begin: Begin | None = None

    def flags(self, tables: list[str]) -> dict[str, object]:
        """Return what decides the outputs, as on the command line."""
        names = ("image", "caption", "image_token", "key", "root", "samples", "size", "shuffle")
        spelled = {f"--{name.replace('_', '-')}": getattr(self, name) for name in names}
        spelled["--shuffle"] = None if self.shuffle is None else str(self.shuffle)
        return {"TABLE": tables, **spelled}


class ShardLimit:
    """The limit of a shard: samples or bytes, one of them. Raises ValueError."""

    def __init__(self, request: PackRequest) -> None:
        if request.samples is not None and request.size is not None:
            raise ValueError(
                "--samples and --size both decide how large shards are: give one of them"
            )
        if request.samples is not None and request.samples < 1:
            raise ValueError(f"--samples must be at least 1, not {request.samples}")
        self.samples = request.samples or USUAL_SAMPLES
        self.size = None if request.size is None else parse_size(request.size)
        if self.size is not None and self.size < 1:
            raise ValueError("--size must be at least 1 byte")
