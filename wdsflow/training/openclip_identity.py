"""What determines the batches of OpenCLIP's training.

``load_state_dict`` compares it with that of a checkpoint.
"""

from argparse import Namespace
from collections.abc import Sequence
from hashlib import blake2b

from wdsflow.shards.shard import unsigned
from wdsflow.text.secrets import redact
from wdsflow.training.feed.recipe import FeedRecipe
from wdsflow.training.feed.resume.shard_facts import counted_shards, sized_shards
from wdsflow.training.feed.subset.subset import Subset
from wdsflow.training.orders.balanced import BalancedOrder
from wdsflow.training.orders.openclip import WorkerOrder
from wdsflow.training.orders.order import Order


def feed_identity(
    args: Namespace, recipe: FeedRecipe, limit: int, subset: Subset | None
) -> dict[str, object]:
    """Return everything that determines the batches.

    Args:
        args: of the training.
        recipe: of the feed.
        limit: pixels that an image may have.
        subset: the samples to which the feed is limited, if it is.
    """
    options = recipe.options
    order = recipe.order
    columns = recipe.sources[0].columns
    join = recipe.sources[0].join
    data = args.train_data if recipe.trains else args.val_data
    common = {
        "schedule": order.name,
        "data": _digest(data),
        "ledger": options.ledger if subset else None,
        "where": subset.where if subset else None,
        "kept samples": subset.digest if subset else None,
        "join": join.identity() if join else None,
        "shards": _shard_facts(order),
        "seed": recipe.seed,
        "caption": str(columns.captions),
        "image": ";".join(columns.image),
        "decode": f"{options.decode} {options.k}",
        "max pixels": limit,
        "shuffle": list(vars(recipe.shuffle).values()) if recipe.shuffle else None,
    }
    if isinstance(order, BalancedOrder):
        return {**common, "samples": order.length, "streams": order.most_streams}
    return {
        **common,
        "batches": order.num_batches,
        "batch size": recipe.batch_size,
        "workers": order.streams,
        "rank": recipe.job_rank.rank,
        "ranks": recipe.job_rank.world_size,
        "upsampling factors": args.train_data_upsampling_factors if recipe.trains else None,
    }


def _shard_facts(order: Order) -> dict[str, str]:
    if isinstance(order, BalancedOrder):
        [source] = order.mixed.sources
        return counted_shards(*zip(*source.shards, strict=True))
    assert isinstance(order, WorkerOrder)
    return sized_shards(order.urls)


def _digest(data: str | Sequence[str]) -> str:
    """Return a digest of the shards' urls, without signatures and passwords.

    Signatures and passwords may change.
    """
    if isinstance(data, str):
        urls = repr("::".join(redact(unsigned(part)) for part in data.split("::")))
    else:
        urls = repr([redact(unsigned(part)) for part in data])
    return blake2b(urls.encode(errors="surrogatepass"), digest_size=8).hexdigest()
