"""One rank of a small training, as a script.

It reads batches, and adds a number over all ranks after each batch.
"""

import sys

import open_clip
import torch
import torch.distributed as dist

from tests.training.shards import arguments, as_text, texts
from wdsflow import FeedOptions
from wdsflow.training import get_wds_dataset
from wdsflow.training import ranks as board
from wdsflow.training.stalls import watchdog

# However slow this machine is, the other rank hears of what happens.
watchdog._HEARING = board._FAREWELL = 3600


def main() -> None:
    data, stall_after, schedule = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    dist.init_process_group("gloo")
    args = arguments(
        train_data=data,
        train_num_samples=64 if schedule == "openclip" else None,
        workers=1,
        batch_size=4,
        rank=dist.get_rank(),
        world_size=dist.get_world_size(),
    )
    loader = get_wds_dataset(
        args,
        open_clip.image_transform(32, is_train=True),
        True,
        tokenizer=as_text,
        options=FeedOptions(
            stall_after=stall_after, status_every=0.0, schedule=schedule, allow_pipe="pipe:" in data
        ),
    ).dataloader
    for batch in loader:
        sys.stdout.write(" ".join(["batch", str(len(texts(batch))), *texts(batch)]) + "\n")
        sys.stdout.flush()
        dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
