"""wdsflow's own feed, for the question of --check whether it resumes."""

import os

import open_clip
from open_clip_train.params import parse_args
from torchvision.transforms.functional import to_tensor

import wdsflow


def small(image):
    return to_tensor(image.convert("RGB").resize((8, 8)))


def make(urls):
    shown = {
        "--train-data": "::".join(urls),
        "--train-num-samples": "64",
        "--batch-size": "8",
        "--workers": "2",
    }
    arguments = parse_args(
        [*(word for pair in shown.items() for word in pair), "--dataset-type", "webdataset"]
    )
    arguments.distributed, arguments.rank = False, int(os.environ["RANK"])
    arguments.world_size = int(os.environ["WORLD_SIZE"])
    data = wdsflow.get_data(
        arguments, (small, small), epoch=0, tokenizer=open_clip.get_tokenizer("RN50")
    )
    return data["train"].dataloader
