"""Decoding and resizing to a model's input size: ours against Pillow with torchvision.

Pillow and torchvision are used as OpenCLIP uses them.

The encoded pictures are in memory before the clock starts, and torch has one thread: this is about
the work alone.
"""

import io
import resource
import sys
import tarfile
from collections.abc import Callable
from typing import Any, Literal

SIDE = 224


def pictures(paths: list[str]) -> list[bytes]:
    """Return the contents of all jpg members."""
    contents = []
    for path in paths:
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith(".jpg"):
                    file = tar.extractfile(member)
                    assert file is not None
                    contents.append(file.read())
    return contents


def ours(mode: Literal["fast", "exact"]) -> Callable[[bytes], Any]:
    """`Decode` and `Resize`."""
    from wdsflow.stages import Decode, Resize

    decode, resize = Decode(mode=mode, target=SIDE, output="numpy"), Resize(SIDE, crop=True)
    return lambda data: resize.resize(decode.decode(data))


def pillow_torchvision() -> Callable[[bytes], Any]:
    """What `wds.decode("pilrgb")` and OpenCLIP's transform for evaluation do, up to the crop."""
    from PIL import Image
    from torchvision import transforms

    bicubic = transforms.InterpolationMode.BICUBIC
    transform = transforms.Compose(
        [transforms.Resize(SIDE, interpolation=bicubic), transforms.CenterCrop(SIDE)]
    )

    def work(data: bytes) -> Any:
        image = Image.open(io.BytesIO(data))
        image.load()
        return transform(image.convert("RGB"))

    return work


def entropy() -> Callable[[bytes], Any]:
    """Decode at 1/8 of the size, in grey.

    This reads every entropy-coded byte, and does hardly anything else.
    """
    from simplejpeg import decode_jpeg

    return lambda data: decode_jpeg(data, "GRAY", min_height=1, min_width=1)


WORKS: dict[str, Callable[[], Callable[[bytes], Any]]] = {
    "decode-fast": lambda: ours("fast"),
    "decode-exact": lambda: ours("exact"),
    "decode-pillow": pillow_torchvision,
    "decode-entropy": entropy,
}


def run(name: str, paths: list[str], clock: Callable[[], Any]) -> dict[str, Any]:
    """Do the work for each picture; ``extra_mb`` is by how much that raises the peak memory."""
    import torch

    torch.set_num_threads(1)
    work = WORKS[name]()
    data = pictures(paths)
    work(_small())
    peak_before = _peak()
    started = clock()
    for picture in data:
        work(picture)
    result: dict[str, Any] = started.stop(samples=len(data))
    return result | {"extra_mb": (_peak() - peak_before) / 1e6}


def _small() -> bytes:
    """Return a picture with which all that is needed gets loaded before the clock starts."""
    from PIL import Image

    stream = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").resize((600, 500)).save(stream, "JPEG")
    return stream.getvalue()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
