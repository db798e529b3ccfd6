"""Videos of many kinds, made by PyAV, with something to read in them."""

from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import av
import numpy as np
from PIL import Image, ImageDraw, ImageFont


def written(*lines, size=(256, 96), font=28, back="white", ink="black"):
    """A picture with lines of text."""
    image = Image.new("RGB", size, back)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((12, 10 + number * (font + 14)), line, ink, font=ImageFont.load_default(font))
    return image


def frame(number, size=(64, 48)):
    """A picture that no other number has."""
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = number * 5 % 256, 255 - number * 5 % 256
    pixels[: size[1] // 2, : number % size[0], 2] = 255
    return Image.fromarray(pixels)


@cache
def video(pictures, *, size=(64, 48), **settings):
    """A video of the first pictures that ``frame`` draws."""
    return filmed([frame(number, size) for number in range(pictures)], **settings)


def filmed(images, *, kind="mp4", codec="mpeg4", rate=10, keys=12, **options):
    """Encode pictures as a video, with a key frame at least every ``keys`` frames."""
    with TemporaryDirectory() as folder:  # one of the options needs to read what is written
        path = Path(folder) / f"video.{kind}"
        with av.open(str(path), "w", options=options) as container:
            track = container.add_stream(codec, rate=rate)
            track.width, track.height = images[0].size
            track.pix_fmt, track.bit_rate = "yuv420p", 2_000_000
            track.gop_size = keys
            for image in images:
                for packet in track.encode(av.VideoFrame.from_image(image)):
                    container.mux(packet)
            for packet in track.encode():
                container.mux(packet)
        return path.read_bytes()


def decoded(data):
    """All frames of a video, in order: (seconds, image)."""
    with av.open(BytesIO(data)) as container:
        stream = container.streams.video[0]
        return [(each.pts * stream.time_base, each.to_image()) for each in container.decode(stream)]


def at_keys(data):
    """The frames of a video that need no other."""
    with av.open(BytesIO(data)) as container:
        return [each.to_image() for each in container.decode(video=0) if each.key_frame]


def sampled(data, count):
    """The frames that Data-Juicer takes, computed independently.

    The video is decoded from its first frame on.
    """
    frames = decoded(data)
    with av.open(BytesIO(data)) as container:
        stream = container.streams.video[0]
        duration = stream.duration * stream.time_base
        count = min(count, stream.frames)
    wanted = (
        [duration / 2]
        if count == 1
        else [duration * number / (count - 1) for number in range(count)]
    )
    found = []
    for time, image in frames:
        if len(found) < len(wanted) and time >= wanted[len(found)]:
            found.append(image)
    return found if len(found) == len(wanted) else [*found, frames[-1][1]]
