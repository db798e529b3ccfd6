"""Runs OpenCLIP's own training loader over shards and says each batch that comes out. Ended by its caller.

    python openclip_probe.py URLS SAMPLES BATCH_SIZE WORKERS BATCHES

Nothing in here is wdsflow: the arguments go through open_clip_train's own parser, the data through its own
``get_data``, with its own picture transform and tokenizer.
"""

import json
import multiprocessing
import sys
import warnings


def main() -> None:
    """Print one JSON line when the loader is ready, and one a batch."""
    warnings.simplefilter("ignore")
    urls, samples, batch_size, workers, batches = sys.argv[1], *map(int, sys.argv[2:6])
    if sys.platform == "linux":  # Python 3.14 starts workers otherwise, and OpenCLIP 3.3's pipeline holds a lambda
        multiprocessing.set_start_method("fork")
    import open_clip
    from open_clip_train.data import get_data
    from open_clip_train.params import parse_args

    flags = ["--train-data", urls, "--train-num-samples", samples, "--batch-size", batch_size, "--workers", workers]
    args = parse_args([str(flag) for flag in flags])
    args.distributed, args.world_size, args.rank = False, 1, 0
    train = open_clip.image_transform(224, is_train=True)
    check = open_clip.image_transform(224, is_train=False)
    data = get_data(args, (train, check), epoch=0, tokenizer=open_clip.get_tokenizer("ViT-B-32"))["train"]
    data.set_epoch(0)
    _say(event="ready", open_clip=open_clip.__version__)
    for number, batch in enumerate(data.dataloader, start=1):
        images, texts = (batch["image"], batch["text"]) if isinstance(batch, dict) else batch
        _say(event="batch", number=number, images=list(images.shape), texts=list(texts.shape))
        if number == batches:
            break
    _say(event="end")


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
