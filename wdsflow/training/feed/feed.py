"""One feed: all parts that make batches, and their shares of the memory. Imports torch."""

import math
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from wdsflow.images.pillow import BOMB_PIXELS
from wdsflow.memory.sizes import Budget, SharedBudget
from wdsflow.readers.open_clip.versions import Buffers
from wdsflow.training.caption_sources import TokenizedCaptions, Tokenizer, no_tokenizer
from wdsflow.training.columns import Columns
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.orders.order import EpochPosition, Order, StreamPosition
from wdsflow.training.pixels.image_work import ImageWork, Preprocess, image_work
from wdsflow.training.ranks import RankPlace, decoders_for, ranks_here, start_method
from wdsflow.training.sample_tasks import StreamKey
from wdsflow.training.stalls.field_fixes import argument, command, processes_named
from wdsflow.training.stalls.loss_tally import FeedLoss, LossTally
from wdsflow.training.workers.chunk_engines import Threads
from wdsflow.training.workers.decoders import Decoders
from wdsflow.training.workers.sample_work import Files, MixedWork, SampleWork

from .assembler import Assembler
from .epoch_run import EpochRun
from .planner import Planner
from .sample_catalog import Catalog
from .stream import Stream

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
class FeedSource:
    """How samples of one source are made. ``images``: None if they have none."""

    images: ImageWork | None
    columns: Columns
    catalog: Catalog
    tokenizer: Tokenizer

    @classmethod
    def of(
        cls,
        columns: Columns,
        transform: Preprocess,
        tokenizer: Tokenizer | None,
        options: FeedOptions,
        max_pixels: int | None = None,
    ) -> "FeedSource":
        """Return a source with these columns. Images of more than ``max_pixels`` are lost, by default of Pillow's limit."""
        images = None
        if columns.image:
            limit = max_pixels or BOMB_PIXELS
            images = image_work(transform, mode=options.decode, k=options.k, max_pixels=limit, budget=None)
        catalog = Catalog(
            columns.image,
            columns.captions.members if columns.captions else (),
            allow_pipe=options.allow_pipe,
            needed=columns.needed,
            everything=columns.map is not None,
        )
        return cls(images=images, columns=columns, catalog=catalog, tokenizer=tokenizer or no_tokenizer)

    @property
    def known(self) -> bool:
        """Whether only code of wdsflow makes its images, so that threads or forked processes can."""
        return self.columns.map is None and (self.images is None or self.images.known)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of its images; None if unknown in advance, or if it has none."""
        return None if self.images is None else self.images.shape


@dataclass(frozen=True, kw_only=True)
class FeedRecipe:
    """Everything that determines a feed. ``trains``: not for evaluation. ``shuffle``: None keeps the order of shards."""

    order: Order
    sources: tuple[FeedSource, ...]
    batch_size: int
    options: FeedOptions
    place: RankPlace
    seed: int
    trains: bool
    shuffle: Buffers | None
    processes: int = 1  # for code of the user that must run in processes
    data: str = ""  # the shards as the user named them
    found: bool = False  # whether ``place`` was found, instead of given by the user

    @property
    def known(self) -> bool:
        """Whether only code of wdsflow makes images."""
        return all(source.known for source in self.sources)


class Feed:
    """Starts epochs, and holds their shared state: buffers, threads, lists of samples."""

    def __init__(self, recipe: FeedRecipe) -> None:
        self.recipe, self.tally = recipe, LossTally()
        cores = decoders_for(recipe.options.decoders)
        self._method = start_method(recipe.options.decode_in, known=recipe.known)
        self.decoders = cores if recipe.known else max(1, recipe.processes)  # threads or processes
        # Small enough for all decoders to work on each batch.
        self._chunk = max(1, min(_MOST_CHUNK, recipe.batch_size // (4 * cores)))
        self._shares = self._share()
        # Of raw content, for each stream. The order of samples depends on it: it is in states.
        self.shuffle_bytes = recipe.order.stream_bytes or self._shares.shuffle
        self.limit(self._shares.decode)  # bytes of one image; larger ones are refused
        self._assemble = Assembler([source.images for source in recipe.sources], recipe.sources[0].columns)
        self._tokens = [TokenizedCaptions(source.tokenizer) for source in recipe.sources]
        for source in recipe.sources:
            source.catalog.hurt = self.tally.hurt
        # Image headers are checked before Pillow decodes: its warnings would only repeat that.
        warnings.filterwarnings("ignore", module=r"PIL\.Image$")
        self._engine: Threads | Decoders | None = None
        self._shared: SharedBudget | None = None  # of the engine's processes
        self._owner = 0  # process that made the engine
        self.run: EpochRun | None = None  # the latest one

    def limit(self, largest: int) -> None:
        """Refuse images that take more than ``largest`` bytes, as the resumed feed did."""
        recipe, self.largest = self.recipe, largest
        if recipe.options.memory is not None:
            # An image larger than the share is refused. Processes cannot coordinate: each gets an equal part.
            for source in recipe.sources:
                if source.images is not None:
                    source.images.limit(largest // (1 if recipe.known else max(1, recipe.processes)))

    def start(self, epoch: int, begin: EpochPosition) -> EpochRun:
        """Begin at a position of an epoch."""
        recipe, engine = self.recipe, self._ready_engine()
        if self._shared is not None:
            self._shared.clear()
        budget = Budget(self._shares.decode) if self._shared is None else self._shared
        files = Files()
        work = MixedWork(
            tuple(
                SampleWork(
                    source.images,
                    source.columns.at_epoch(epoch),
                    tokens,
                    self.largest,
                    processes_named(recipe.options, known=recipe.known),
                    files=files,
                    hold=budget.hold,
                )
                for source, tokens in zip(recipe.sources, self._tokens, strict=True)
            )
        )
        return EpochRun(engine, work, self._assemble, partial(self._planner, epoch, begin))

    def _planner(self, epoch: int, begin: EpochPosition, idle: Callable[[], None]) -> Planner:
        options, order = self.recipe.options, self.recipe.order
        # Samples lost in a row that count as starvation. A stream that begins again is judged at the end of its round.
        judged_later = not (order.endless or order.keeps_places)
        return Planner(
            order,
            epoch,
            begin,
            partial(self._stream, epoch, idle),
            self.tally,
            ahead=self._shares.ahead,
            most_bytes=self._shares.raw,
            chunk=self._chunk,
            most_lost=options.stall_samples or (sys.maxsize if judged_later else _MOST_LOST),
            idle=idle,
        )

    def _stream(
        self,
        epoch: int,
        idle: Callable[[], None],
        key: StreamKey,
        position: StreamPosition,
        lose: Callable[[FeedLoss, int], None],
    ) -> Stream:
        recipe, order = self.recipe, self.recipe.order
        # Where samples keep their places, a stream is the same on all ranks.
        owner = key.source if order.keeps_places else recipe.place.rank
        return Stream(
            key,
            partial(order.shards_of, epoch, key),
            recipe.sources[key.source].catalog,
            epoch=epoch,
            seed=f"{recipe.seed} {owner}",
            shuffle=recipe.shuffle,
            most_bytes=self.shuffle_bytes,
            lose=lose,
            idle=idle,
            position=position,
            draws=order.shards if order.endless else None,
        )

    def cpu(self) -> float:
        """Return the seconds of processor time that the decoders of this epoch have taken."""
        return 0.0 if self._engine is None else self._engine.cpu()

    def abandon(self) -> None:
        """End the threads and processes soon. Takes no lock: garbage collection may call it anywhere."""
        if self._owner == os.getpid():
            if self.run is not None:
                self.run.abandon()
            self.close()

    def close(self) -> None:
        """End the threads or processes that decode."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _ready_engine(self) -> Threads | Decoders:
        if self._engine is None or self._owner != os.getpid():  # threads do not survive a fork
            # Again: a worker of a DataLoader, which is a daemon, starts no processes.
            self._method = start_method(self.recipe.options.decode_in, known=self.recipe.known)
            self._engine = self._new_engine()
            self._shared = SharedBudget(self._shares.decode, self.decoders) if self._method == "fork" else None
            self._owner = os.getpid()
        return self._engine

    def _new_engine(self) -> Threads | Decoders:
        samples = self._shares.ahead + self.recipe.batch_size
        ahead, sources = -(-samples // self._chunk), self.recipe.sources
        if self._method is None:
            return Threads(self.decoders, ahead)
        for source in sources:
            if self._method == "fork" and source.images is not None:
                source.images.import_all()
        sizes = [_LARGEST if source.shape is None else math.prod(source.shape) for source in sources if source.images]
        return Decoders(
            self.decoders,
            ahead,
            room=samples + 2 * self._chunk,
            size=max(sizes, default=0),
            method=self._method,
            known=self.recipe.known,
            options=self.recipe.options,
        )

    def _share(self) -> "Shares":
        options = self.recipe.options
        shapes = [source.shape for source in self.recipe.sources if source.shape is not None]
        values = max(map(math.prod, shapes), default=_TYPICAL)
        try:
            return shares(
                options.memory_bytes,
                batch=self.recipe.batch_size,
                sample=values * _FLOAT,
                made=values if self.recipe.known else values * _FLOAT,
                decoders=self.decoders,
                chunk=self._chunk,
                streams=self.recipe.order.streams,
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
    shuffle: int  # raw content in the shuffle buffer of a stream
    raw: int  # raw content of samples that are being made
    ahead: int


def shares(
    memory: int | None, *, batch: int, sample: int, made: int, decoders: int, chunk: int, streams: int
) -> Shares:
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
    return Shares(_LEAST_DECODE + max(0, left), max(1 << 20, shuffle // max(1, streams)), max(1 << 20, raw), ahead)
