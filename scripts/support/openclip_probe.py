"""Runs OpenCLIP's own training loader over shards, and prints what comes out of it.

Nothing in here is wdsflow: arguments go through open_clip_train's own parser, the data through its
own ``get_data``, with its own picture transform and tokenizer.

Reads one request a line, ``{"arguments": [...], "batches": 8, "seconds": 6}``, and answers each
with one line, ``{"batches": 8, "images": [16, 3, 224, 224], "texts": [16, 77], "seconds": 0.9,
"error": ""}``. Each loader runs in a forked process and is ended in time with all its workers: a
starved one never ends by itself.
"""

import contextlib
import json
import multiprocessing
import os
import select
import signal
import sys
import time
import warnings
from typing import Any

Answer = dict[str, Any]


def main() -> None:
    """Import OpenCLIP once, print its version, and answer requests until there are no more."""
    warnings.simplefilter("ignore")
    # Python 3.14 starts workers in another way, and OpenCLIP 3.3's pipeline holds a lambda, which
    # that way refuses.
    multiprocessing.set_start_method("fork")
    import open_clip
    import open_clip_train.data
    import open_clip_train.params  # noqa: F401

    print(json.dumps({"open_clip": open_clip.__version__}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        result = answer(request["arguments"], request["batches"], request["seconds"])
        print(json.dumps(result), flush=True)


def answer(arguments: list[str], batches: int, seconds: float) -> Answer:
    """Run a loader in a process of its own for at most some seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(reader)
        run(arguments, batches, writer)
    os.close(writer)
    start = time.monotonic()
    try:
        events = read_events(reader, start + seconds)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
    shapes = [event for event in events if "images" in event]
    first = shapes[0] if shapes else {"images": [], "texts": []}
    error = next((event["error"] for event in events if "error" in event), "")
    return {**first, "batches": len(shapes), "seconds": time.monotonic() - start, "error": error}


def read_events(reader: int, deadline: float) -> list[Answer]:
    """Return what the process has written, one event a line, once it ends or time is up."""
    data = b""
    while (left := deadline - time.monotonic()) > 0 and select.select([reader], [], [], left)[0]:
        piece = os.read(reader, 65536)
        data += piece
        if not piece or b'"end"' in data:
            break
    # The last line may not be complete.
    lines = [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]
    return [json.loads(line) for line in lines]


def run(arguments: list[str], batches: int, writer: int) -> None:
    """Take batches from OpenCLIP's loader, and write an event for each; ends the process."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    try:
        for number, batch in enumerate(loader(arguments), start=1):
            images, texts = (batch["image"], batch["text"]) if isinstance(batch, dict) else batch
            write_event(writer, images=list(images.shape), texts=list(texts.shape))
            if number == batches:
                break
    except BaseException as error:  # noqa: BLE001 - it is the answer
        write_event(writer, error=f"{type(error).__name__}: {error}".splitlines()[0])
    write_event(writer, end=True)
    os._exit(0)


def loader(arguments: list[str]) -> Any:
    """Return the training loader that open_clip_train.main would build for these arguments."""
    import open_clip
    from open_clip_train.data import get_data
    from open_clip_train.params import parse_args

    args = parse_args(arguments)
    args.distributed, args.world_size, args.rank = False, 1, 0
    transforms = [open_clip.image_transform(224, is_train=train) for train in (True, False)]
    train = get_data(args, transforms, epoch=0, tokenizer=open_clip.get_tokenizer("ViT-B-32"))[
        "train"
    ]
    train.set_epoch(0)
    return train.dataloader


def write_event(writer: int, **fields: object) -> None:
    """Write one line; it is short enough to be written whole."""
    os.write(writer, json.dumps(fields).encode() + b"\n")


if __name__ == "__main__":
    main()
