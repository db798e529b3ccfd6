"""One feed: all parts that make batches, and their shares of the memory. Imports torch."""

import contextlib
import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from wdsflow.memory.budget import Budget
from wdsflow.memory.shared_budget import SharedBudget
from wdsflow.training.orders.order import EpochPosition
from wdsflow.training.ranks import decoders_for, start_method
from wdsflow.training.sample_tasks import StreamKey
from wdsflow.training.stalls.field_fixes import argument_name, process_count_name, rerun_command
from wdsflow.training.stalls.loss_tally import FeedLoss, LossTally
from wdsflow.training.tokenized_captions import TokenizedCaptions
from wdsflow.training.workers.decoders import Decoders
from wdsflow.training.workers.processes import DecodingProcesses
from wdsflow.training.workers.sample_members import OpenShards
from wdsflow.training.workers.sample_work import ChunkWork, SampleWork
from wdsflow.training.workers.threads import DecodingThreads

from .cache_plan import CachePlan
from .epoch.assembler import Assembler
from .epoch.epoch_run import EpochRun
from .epoch.planned_ahead import PlannedAhead
from .epoch.planner import Planner
from .epoch.stream import Stream
from .memory_shares import MemoryShares, TooLittleFeedMemory, divide_memory
from .recipe import FeedRecipe

# Samples of a chunk.
_MOST_CHUNK = 32
# Values of an image whose shape is unknown.
_TYPICAL = 3 * 224 * 224
# Bytes of such an image that fit into shared memory.
_LARGEST = 4 << 20
_FLOAT = 4
_MEBIBYTE = 1 << 20
# Samples in a row, if shards are drawn forever.
_MOST_LOST = 50_000


class Feed:
    """Starts epochs, and holds what they share: counts, lists of samples, memory for batches."""

    def __init__(self, recipe: FeedRecipe) -> None:
        self.recipe = recipe
        self.tally = LossTally()
        cores = decoders_for(recipe.options.decoders)
        # Threads or processes.
        self.decoders = cores if recipe.recognised else max(1, recipe.processes)
        start_method(recipe.options.decode_in, recognised=recipe.recognised)
        # Small enough for all decoders to work on each batch.
        self._chunk = max(1, min(_MOST_CHUNK, recipe.batch_size // (4 * cores)))
        self._shares = self._share()
        # Of raw content, for each stream. The order of samples depends on it: it is in states.
        self.shuffle_bytes = recipe.order.stream_bytes or self._shares.shuffle
        self._limit_images(self._shares.decode)
        self._assemble = Assembler(
            [source.images for source in recipe.sources], recipe.sources[0].columns
        )
        self._tokens = [TokenizedCaptions(source.tokenizer) for source in recipe.sources]
        for source in recipe.sources:
            source.catalog.on_damage = self.tally.add_damage
        # Image headers are checked before Pillow decodes: its warnings would only repeat that.
        warnings.filterwarnings("ignore", module=r"PIL\.Image$")
        cache = recipe.cache
        self._cache_plan = None if cache is None else CachePlan(recipe, cache)
        # The latest one.
        self.run: EpochRun | None = None
        # The epoch after that of the run, once its streams are read ahead.
        self._planned_epoch: PlannedAhead | None = None

    def memory_limits(self) -> dict[str, int]:
        """Return the limits of memory that the order of samples depends on, for a state."""
        if self.recipe.order.global_order:
            return {"stream_bytes": self.shuffle_bytes}
        return {"shuffle_bytes": self.shuffle_bytes, "largest": self.largest}

    def set_memory_limits(self, state: Mapping[str, Any]) -> None:
        """Use the limits of a state.

        With another amount of memory the order of samples would differ, and with other decoders
        other samples would be refused.
        """
        self._drop_planned_epoch()
        if self.recipe.order.global_order:
            self.shuffle_bytes = int(state["stream_bytes"])
            return
        self.shuffle_bytes = int(state.get("shuffle_bytes", self.shuffle_bytes))
        self._limit_images(int(state.get("largest", self.largest)))

    def start(self, epoch: int, begin: EpochPosition) -> EpochRun:
        """Begin at a position of an epoch."""
        if self._cache_plan is not None:
            self._cache_plan.begin(epoch)
        # Before the run begins: in a short epoch, its thread soon plans the next one.
        ahead = self._take_planned_epoch(epoch, begin)
        plan = partial(self._planner, epoch, begin) if ahead is None else ahead.begin
        try:
            self.run = EpochRun(
                partial(self._begin_decoding, epoch),
                plan,
                self._assemble,
                partial(self._plan_ahead, epoch + 1),
            )
        except BaseException:
            if ahead is not None:
                ahead.close()
            raise
        return self.run

    def close(self) -> None:
        """End the threads and processes, and wait for them."""
        if self.run is not None:
            self.run.close()
            self.run = None
        self._drop_planned_epoch()
        if self._cache_plan is not None:
            self._cache_plan.close()

    def cpu_seconds(self) -> float:
        """Return the seconds of processor time that the decoders of this epoch have taken."""
        return 0.0 if self.run is None else self.run.decoders.cpu_seconds()

    def abandon(self) -> None:
        """End the threads and processes soon.

        Takes no lock, because garbage collection may call it anywhere.
        """
        if self.run is not None and self.run.owner == os.getpid():
            self.run.abandon()
            if self._planned_epoch is not None:
                self._planned_epoch.abandon()

    def _limit_images(self, largest: int) -> None:
        """Refuse images that take more than ``largest`` bytes while they are decoded."""
        recipe = self.recipe
        self.largest = largest
        if recipe.options.memory is None:
            return
        # Processes of unknown transforms cannot coordinate: each gets an equal part.
        parts = 1 if recipe.recognised else max(1, recipe.processes)
        for source in recipe.sources:
            if source.images is not None:
                source.images.limit_memory(largest // parts)

    def _begin_decoding(self, epoch: int) -> Decoders:
        recipe = self.recipe
        # Asked again: a worker of a DataLoader, which is a daemon, starts no processes.
        method = start_method(recipe.options.decode_in, recognised=recipe.recognised)
        samples = self._shares.ahead + recipe.batch_size
        most_chunks = -(-samples // self._chunk)
        if method is None:
            work = self._work(epoch, Budget(self._shares.decode))
            return DecodingThreads(self.decoders, most_chunks, work)
        sources_with_images = [source for source in recipe.sources if source.images is not None]
        if method == "fork":
            work = self._work(epoch, SharedBudget(self._shares.decode, self.decoders))
            for source in sources_with_images:
                assert source.images is not None
                source.images.import_all()
        else:
            # A budget cannot be sent to them.
            work = self._work(epoch, None)
        # Of an image in shared memory, in bytes.
        size = 0
        for source in sources_with_images:
            size = max(size, _LARGEST if source.shape is None else math.prod(source.shape))
        return DecodingProcesses(
            self.decoders,
            most_chunks,
            work,
            room=samples + 2 * self._chunk,
            size=size,
            method=method,
            recognised=recipe.recognised,
            options=recipe.options,
        )

    def _work(self, epoch: int, budget: Budget | SharedBudget | None) -> ChunkWork:
        recipe = self.recipe
        shards = OpenShards()
        works = [
            SampleWork(
                source.images,
                source.columns.at_epoch(epoch, recipe.seed),
                tokens,
                self.largest,
                process_count_name(recipe.options, recognised=recipe.recognised),
                source.join,
                shards=shards,
                hold=None if budget is None else budget.hold,
            )
            for source, tokens in zip(recipe.sources, self._tokens, strict=True)
        ]
        return ChunkWork(tuple(works))

    def _planner(self, epoch: int, begin: EpochPosition, idle: Callable[[], None]) -> Planner:
        order = self.recipe.order
        # Samples lost in a row that count as starvation.
        most_lost = self.recipe.options.stall_samples
        if not most_lost:
            # A stream that begins again is judged at the end of its round.
            judged_later = not (order.endless or order.global_order)
            most_lost = sys.maxsize if judged_later else _MOST_LOST
        return Planner(
            order,
            epoch,
            begin,
            partial(self._stream, epoch, idle),
            self.tally,
            ahead=self._shares.ahead,
            most_bytes=self._shares.raw,
            chunk=self._chunk,
            most_lost=most_lost,
            idle=idle,
        )

    def _plan_ahead(self, epoch: int) -> None:
        """Plan the epoch that probably comes next, so that its remote shards are read in time.

        Until it begins, its streams hold a quarter of their share of the memory, which those of the
        epoch before it may still hold, too.
        """
        recipe = self.recipe
        # A cache has, or is getting, the shards that are needed first; to open them now could
        # download some of them that a run which ends here does not need.
        if not recipe.trains or self._cache_plan is not None:
            return
        # A command whose output is not taken for the time of an evaluation may be cut off by its
        # server.
        if recipe.options.allow_pipe:
            return
        self._drop_planned_epoch()
        # Its errors are raised when it begins, and is planned again.
        with contextlib.suppress(Exception):
            self._planned_epoch = PlannedAhead(
                epoch, partial(self._planner, epoch, EpochPosition())
            )

    def _take_planned_epoch(self, epoch: int, begin: EpochPosition) -> PlannedAhead | None:
        """Return the planned epoch if it is this one, from its beginning; otherwise drop it."""
        ahead = self._planned_epoch
        if ahead is not None and ahead.epoch == epoch and begin == EpochPosition():
            self._planned_epoch = None
            return ahead
        self._drop_planned_epoch()
        return None

    def _drop_planned_epoch(self) -> None:
        if self._planned_epoch is not None:
            self._planned_epoch.close()
            self._planned_epoch = None

    def _stream(
        self,
        epoch: int,
        idle: Callable[[], None],
        key: StreamKey,
        first_round: int,
        lose: Callable[[FeedLoss, int], None],
    ) -> Stream:
        recipe = self.recipe
        order = recipe.order
        # Where samples keep their positions, a stream is the same on all ranks.
        owner = key.source if order.global_order else recipe.job_rank.rank
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
            first_round=first_round,
            draws=order.shards if order.endless else None,
        )

    def _share(self) -> "MemoryShares":
        """Return the parts of the memory. Raises ValueError if there is too little."""
        options = self.recipe.options
        shapes = [source.shape for source in self.recipe.sources if source.shape is not None]
        values = max(map(math.prod, shapes), default=_TYPICAL)
        bytes_of_sample = values * _FLOAT
        # Decoders make uint8 of known transforms.
        bytes_made = values if self.recipe.recognised else bytes_of_sample
        try:
            return divide_memory(
                options.memory_bytes,
                batch=self.recipe.batch_size,
                sample=bytes_of_sample,
                made=bytes_made,
                decoders=self.decoders,
                chunk=self._chunk,
                streams=self.recipe.order.streams,
            )
        except TooLittleFeedMemory as error:
            more = rerun_command(options, memory=f"{-(-error.least // _MEBIBYTE)}MiB")
            fixes = (
                f"  more memory: {more}\n  smaller batches: {argument_name(options, 'batch_size')}"
            )
            raise ValueError(f"{error}\nTo fix it:\n{fixes}") from None
