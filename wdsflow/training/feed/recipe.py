"""What determines a feed: its order, and for each source its samples and how they are made."""

from dataclasses import dataclass

from wdsflow.images.pillow import BOMB_PIXELS
from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.readers.open_clip.versions import Buffers
from wdsflow.shards.cache.shard_cache import ShardCache, shared_cache
from wdsflow.shards.source.base import local_folder
from wdsflow.training.columns import FeedColumns
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.orders.order import Order
from wdsflow.training.pixels.image_work import ImageWork, Preprocess, image_work
from wdsflow.training.ranks import JobRank
from wdsflow.training.tokenized_captions import Tokenizer, no_tokenizer

from .catalog.sample_catalog import Catalog


@dataclass(frozen=True, kw_only=True)
class FeedSource:
    """How the samples of one source are made.

    ``images``: None if the samples have none. ``join``: None without a table.
    """

    images: ImageWork | None
    columns: FeedColumns
    catalog: Catalog
    tokenizer: Tokenizer
    join: JoinedFields | None = None

    @classmethod
    def of(
        cls,
        columns: FeedColumns,
        transform: Preprocess,
        tokenizer: Tokenizer | None,
        options: FeedOptions,
        max_pixels: int | None = None,
        join: JoinedFields | None = None,
    ) -> "FeedSource":
        """Return a source with these columns.

        Images of more than ``max_pixels`` are lost. The default is Pillow's limit.
        """
        images = None
        if columns.image:
            limit = max_pixels or BOMB_PIXELS
            images = image_work(
                transform, mode=options.decode, k=options.k, max_pixels=limit, budget=None
            )
        catalog = Catalog(
            columns.image,
            columns.captions.members if columns.captions else (),
            allow_pipe=options.allow_pipe,
            needed=columns.needed,
            everything=columns.map is not None,
            join=join,
        )
        if options.cache is not None:
            catalog.cache = shared_cache(local_folder(options.cache), options.cache_bytes or 0)
        return cls(
            images=images,
            columns=columns,
            catalog=catalog,
            tokenizer=tokenizer or no_tokenizer,
            join=join,
        )

    @property
    def recognised(self) -> bool:
        """Whether its samples are made only by code of wdsflow.

        Threads or forked processes can then make them.
        """
        return self.columns.map is None and (self.images is None or self.images.recognised)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of its images; None if unknown in advance, or if it has none."""
        return None if self.images is None else self.images.shape


@dataclass(frozen=True, kw_only=True)
class FeedRecipe:
    """Everything that determines a feed.

    ``trains``: not for evaluation. ``shuffle``: None keeps the order of shards. ``processes``: for
    code of the user that must run in processes. ``data``: the shards as the user named them.
    ``rank_detected``: whether ``job_rank`` was read from the environment, instead of given by the
    user.
    """

    order: Order
    sources: tuple[FeedSource, ...]
    batch_size: int
    options: FeedOptions
    job_rank: JobRank
    seed: int
    trains: bool
    shuffle: Buffers | None
    processes: int = 1
    data: str = ""
    rank_detected: bool = False

    @property
    def cache(self) -> ShardCache | None:
        """The cache of shards that its sources share."""
        return self.sources[0].catalog.cache

    @property
    def recognised(self) -> bool:
        """Whether only code of wdsflow makes images."""
        return all(source.recognised for source in self.sources)
