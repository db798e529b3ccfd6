"""One of two connected ranks whose shards are a folder on a server, as a script.

It prints its keys, or the error.
"""

import json
import sys

import torch.distributed as dist

from wdsflow import FeedOptions, feed
from wdsflow.training.feed_options import ShardsError


def main() -> None:
    store, rank, data = sys.argv[1:]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=2)
    options = FeedOptions(status_every=0.0, decode_in="threads", decoders=1)
    try:
        given = feed(data, batch_size=4, fields=("__key__",), options=options)
        sys.stdout.write(json.dumps([key for (keys,) in given for key in keys]))
        given.close()
    except ShardsError as error:
        sys.stdout.write(f"refused: {error}")
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
