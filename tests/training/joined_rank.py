"""One of two connected ranks that join a table, as a script.

It prints its keys, or why the join is refused.
"""

import json
import logging
import sys

import torch.distributed as dist

from tests.training.shards import arguments, as_text
from wdsflow import FeedOptions, feed, get_data
from wdsflow.training.feed_options import JoinError


def main() -> None:
    store, rank, data, table, ambiguous, *samples = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=2)
    options = FeedOptions(
        status_every=0.0, decode_in="threads", decoders=1, join_ambiguous=ambiguous
    )
    try:
        if samples:
            train(data, table, samples[0])
            return
        joined = feed(
            data,
            batch_size=4,
            fields=("__key__", "txt"),
            join=table,
            join_set={"txt": "caption"},
            options=options,
        )
        batches = [list(zip(*batch, strict=True)) for batch in joined]
        given = json.dumps([sample for batch in batches for sample in batch])
        sys.stdout.write(f"given: {given}\n")
        joined.close()
    except JoinError as error:
        sys.stdout.write(f"refused: {error}\n")
    finally:
        dist.destroy_process_group()


def train(data: str, table: str, samples: str) -> None:
    """Open OpenCLIP's data, of a known size, where samples may be ambiguous."""
    options = FeedOptions(join=table, join_set=("txt=caption",), join_ambiguous="each")
    given = arguments(train_data=data, workers=1, batch_size=1, train_num_samples=int(samples))
    get_data(given, (str, str), tokenizer=as_text, options=options)
    sys.stdout.write("opened\n")


if __name__ == "__main__":
    main()
