"""One feed: all parts that make batches, and their shares of the memory. Imports torch."""

import math
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from wdsflow.memory.sizes import Budget, SharedBudget
from wdsflow.readers.open_clip.versions import Buffers
from wdsflow.training.caption_sources import Captions, TokenizedCaptions, Tokenizer
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.pixels.image_work import ImageWork
from wdsflow.training.ranks import RankPlace, decoders_for, ranks_here, start_method
from wdsflow.training.stalls.field_fixes import argument, command, processes_named
from wdsflow.training.stalls.loss_tally import FeedLoss, LossTally
from wdsflow.training.workers.chunk_engines import Threads
from wdsflow.training.workers.decoders import Decoders
from wdsflow.training.workers.sample_work import SampleWork

from .batch_planner import Planner
from .epoch_run import Assembler, EpochRun
from .lanes import Lane, LanePosition
from .sample_catalog import Catalog
from .schedule import Schedule

_MOST_CHUNK = 32  # samples of a chunk
_TYPICAL = 3 * 224 * 224  # values of an image whose shape is unknown
_FLOAT = 4
_MEBIBYTE = 1 << 20
_LARGEST = 4 << 20  # bytes of such an image that fit into shared memory
_MOST_LOST = 50_000  # samples in a row, if shards are drawn forever
_BATCHES = 3  # one in training, one ready, one being made
_LEAST_DECODE = 64 << 20  # bytes; an image that needs more is refused
_DEFAULT = 2 << 30
_CHUNKS = 16  # in progress for each decoder: work does not pause while a batch is assembled


@dataclass(frozen=True, kw_only=True)
class FeedRecipe:
    """Everything that determines a feed."""

    schedule: Schedule
    images: ImageWork
    captions: Captions
    catalog: Catalog
    tokenizer: Tokenizer
    batch_size: int
    options: FeedOptions
    place: RankPlace
    seed: int
    shuffle: Buffers | None  # None for evaluation
    as_dict: bool  # batches of OpenCLIP 4
    processes: int = 1  # for a transform that must run in processes
    data: str = ""  # the shards as the user named them


class Feed:
    """Starts epochs, and holds their shared state: buffers, threads, lists of samples."""

    def __init__(self, recipe: FeedRecipe) -> None:
        self.recipe, self.tally = recipe, LossTally()
        self._decoders = decoders_for(recipe.options.decoders)
        self._method = start_method(recipe.options.decode_in, known=recipe.images.known)
        self._workers = self._decoders if recipe.images.known else max(1, recipe.processes)
        # Small enough for all decoders to work on each batch.
        self._chunk = max(1, min(_MOST_CHUNK, recipe.batch_size // (4 * self._decoders)))
        self._shares = self._share()
        self.shuffle_bytes = self._shares.shuffle  # of raw content, for each lane; the order of samples depends on it
        self.largest = self._shares.decode  # bytes of one image; larger ones are refused
        self.limit(self.largest)
        self._assemble = Assembler(recipe.images, as_dict=recipe.as_dict)
        self._tokens = TokenizedCaptions(recipe.tokenizer)
        recipe.catalog.hurt = self.tally.hurt
        # Image headers are checked before Pillow decodes: its warnings would only repeat that.
        warnings.filterwarnings("ignore", module=r"PIL\.Image$")
        self._engine: Threads | Decoders | None = None
        self._shared: SharedBudget | None = None  # of the engine's processes
        self._owner = 0  # process that made the engine

    def limit(self, largest: int) -> None:
        """Refuse images that take more than ``largest`` bytes, as the resumed feed did."""
        recipe, self.largest = self.recipe, largest
        if recipe.options.memory is not None:
            # An image larger than the share is refused. Processes cannot coordinate: each gets an equal part.
            recipe.images.limit(largest // (1 if recipe.images.known else max(1, recipe.processes)))

    def start(self, epoch: int, first: int, positions: list[LanePosition] | None) -> EpochRun:
        """Begin with batch ``first`` of an epoch, the lanes at ``positions``."""
        recipe, engine = self.recipe, self._ready_engine()
        if self._shared is not None:
            self._shared.clear()
        budget = Budget(self._shares.decode) if self._shared is None else self._shared
        work = SampleWork(
            recipe.images,
            recipe.captions.at_epoch(epoch),
            self._tokens,
            self.largest,
            processes_named(recipe.options, known=recipe.images.known),
            hold=budget.hold,
        )
        # Samples lost in a row that count as starvation; a finite lane is judged at its end.
        most_lost = recipe.options.stall_samples or (_MOST_LOST if recipe.schedule.endless else sys.maxsize)

        def plan(idle: Callable[[], None]) -> Planner:
            return Planner(
                recipe.schedule,
                lambda lose: self._lanes(epoch, positions, lose, idle),
                self.tally,
                ahead=self._shares.ahead,
                most_bytes=self._shares.raw,
                chunk=self._chunk,
                first=first,
                last=recipe.schedule.num_batches if recipe.shuffle is not None else None,
                most_lost=most_lost,
                idle=idle,
            )

        return EpochRun(engine, work, self._assemble, plan)

    def close(self) -> None:
        """End the threads or processes."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _lanes(
        self,
        epoch: int,
        positions: list[LanePosition] | None,
        lose: Callable[[FeedLoss, int], None],
        idle: Callable[[], None],
    ) -> list[Lane]:
        recipe, lanes = self.recipe, list[Lane]()
        with ExitStack() as stack:
            for number in range(recipe.schedule.lanes):
                lane = Lane(
                    number,
                    recipe.schedule,
                    recipe.catalog,
                    epoch=epoch,
                    seed=f"{recipe.seed} {recipe.place.rank}",
                    shuffle=recipe.shuffle,
                    most_bytes=self.shuffle_bytes,
                    lose=lose,
                    idle=idle,
                    position=positions[number] if positions else LanePosition(),
                )
                stack.callback(lane.close)
                lanes.append(lane)
            stack.pop_all()  # the planner closes them
        return lanes

    def _ready_engine(self) -> Threads | Decoders:
        if self._engine is None or self._owner != os.getpid():  # threads do not survive a fork
            self._engine = self._new_engine()
            self._shared = SharedBudget(self._shares.decode, self._workers) if self._method == "fork" else None
            self._owner = os.getpid()
        return self._engine

    def _new_engine(self) -> Threads | Decoders:
        samples = self._shares.ahead + self.recipe.batch_size
        ahead, shape = -(-samples // self._chunk), self.recipe.images.shape
        if self._method is None:
            return Threads(self._workers, ahead)
        if self._method == "fork":
            self.recipe.images.import_all()
        return Decoders(
            self._workers,
            ahead,
            room=samples + 2 * self._chunk,
            size=_LARGEST if shape is None else math.prod(shape),
            method=self._method,
            known=shape is not None,
            options=self.recipe.options,
        )

    def _share(self) -> "Shares":
        images, options = self.recipe.images, self.recipe.options
        values = _TYPICAL if images.shape is None else math.prod(images.shape)
        memory = options.memory
        assert memory is None or isinstance(memory, int)
        try:
            return shares(
                memory,
                batch=self.recipe.batch_size,
                sample=values * _FLOAT,
                made=values if images.known else values * _FLOAT,
                decoders=self._workers,
                chunk=self._chunk,
                lanes=self.recipe.schedule.lanes,
            )
        except TooLittleMemory as error:
            more = command(options, memory=f"{-(-error.least // _MEBIBYTE)}MiB")
            fixes = f"  more memory: {more}\n  smaller batches: {argument(options, 'batch_size')}"
            raise ValueError(f"{error}\nTo fix it:\n{fixes}") from None


class TooLittleMemory(ValueError):
    """Three batches and one image do not fit; ``least`` bytes are needed."""

    def __init__(self, message: str, least: int) -> None:
        super().__init__(message)
        self.least = least


class Shares(NamedTuple):
    """How the memory of a feed is divided, in bytes; ``ahead``: samples that are made before their batch.

    Only compressed and remote shards have raw content; other shards are read when a sample is made.
    """

    decode: int
    shuffle: int  # raw content in the shuffle buffer of a lane
    raw: int  # raw content of samples that are being made
    ahead: int


def shares(memory: int | None, *, batch: int, sample: int, made: int, decoders: int, chunk: int, lanes: int) -> Shares:
    """Divide ``memory`` bytes; None selects a sensible amount, at most half of this machine's share.

    ``batch``: samples of a batch. ``sample``: bytes of one in a batch. ``made``: bytes of one that waits for its batch.
    The share of shuffling does not depend on ``decoders``, because the order of samples depends on it. Raises
    TooLittleMemory.
    """
    batches = _BATCHES * batch * sample
    wanted = max(2 * decoders * chunk, min(batch, _CHUNKS * decoders * chunk))
    fixed = batches + batch * made + _LEAST_DECODE
    least = fixed + decoders * chunk * made
    if memory is None:
        from wdsflow.memory.usage import host_memory

        free = max(0, min(_DEFAULT, host_memory().total // 2 // ranks_here() - fixed))
        memory = max(least + wanted * made, fixed + free)
    else:
        free = max(0, memory - fixed)
    if memory < least:
        what = f"memory of {memory:,} bytes is too little: {_BATCHES} batches of {batch:,} samples take {batches:,}"
        raise TooLittleMemory(f"{what}, and all in all {least:,} are needed", least)
    shuffle, raw = free // 4, free // 4
    left = memory - least
    ahead = min(wanted, decoders * chunk + left // 4 // max(made, 1))
    left -= max(0, ahead - decoders * chunk) * made + shuffle + raw
    return Shares(_LEAST_DECODE + max(0, left), max(1 << 20, shuffle // max(1, lanes)), max(1 << 20, raw), ahead)
