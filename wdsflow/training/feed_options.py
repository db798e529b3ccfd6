"""What a feed can be told beside OpenCLIP's own arguments."""

from dataclasses import dataclass, field, fields
from typing import Literal, get_args, get_origin

from wdsflow.memory.sizes import parse_size

Schedule = Literal["openclip", "balanced"]


@dataclass(frozen=True, kw_only=True)
class FeedOptions:
    """Settings of a feed; ``None`` leaves a matter to OpenCLIP's arguments or to this machine.

    ``caption``: where captions are, "txt|json:description;alt": members separated by bars, tried in order; of json
    members the names, tried in order, with dots for nested ones. ``image``: members that hold the image, "jpg;png".
    ``max_pixels``: larger images are dropped by their header. ``decode`` and ``k``: see ``wdsflow.stages.Decode``.
    ``schedule``: "openclip" reads the shards that OpenCLIP's own loader would read, in its order; "balanced" gives each
    sample once an epoch and each rank the same number of batches. ``stall_after``: seconds that training waits for a
    batch before all ranks fail with StallError; ``stall_samples``: the same in samples lost in a row, None: 50,000 where
    shards are drawn for ever, else whole passes are judged. ``memory``:
    bytes of everything in flight, a number or "2GiB". ``decoders``: how many images are decoded at once; ``decode_in``: in processes of their own or in
    threads, "auto": processes where they can be forked. ``status_every``: seconds between
    status lines, 0 for none. ``metrics``: a file, ``.prom`` for Prometheus' text format or ``.jsonl`` for JSON lines.
    ``allow_pipe``: whether ``pipe:`` urls may run their commands. ``argv``: open_clip_train's arguments, which messages
    repeat in commands.
    """

    caption: str | None = None
    image: str | None = None
    max_pixels: int | None = None
    decode: Literal["fast", "exact", "reference"] = "fast"
    k: float = 2.0
    schedule: Schedule = "openclip"
    stall_after: float = 300.0
    stall_samples: int | None = None
    memory: int | str | None = field(default=None)
    decoders: int | None = None
    decode_in: Literal["auto", "processes", "threads"] = "auto"
    status_every: float = 10.0
    metrics: str | None = None
    allow_pipe: bool = True
    argv: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for item in fields(self):
            choices = get_args(item.type) if get_origin(item.type) is Literal else ()
            value = getattr(self, item.name)
            if choices and value not in choices:
                raise ValueError(f"{item.name} is {value!r}; choose one of {', '.join(map(str, choices))}")
        if self.memory is not None:
            object.__setattr__(self, "memory", parse_size(self.memory))
        for name in ("stall_after", "stall_samples", "decoders", "max_pixels"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value!r}; it must be more than 0")
