"""Writes one small shard set for each fault of the demonstration."""

import io
import json
import math
import struct
import tarfile
import wave
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from wdsflow.example_shards import Scene, write_examples

Member = tuple[str, bytes]
SHARDS = 4


def members(scenes: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
    """Yield what a healthy shard holds: for each sample a picture and a caption side by side."""
    for number, scene in scenes:
        yield f"{number:06d}.jpg", scene.jpeg
        yield f"{number:06d}.txt", scene.caption.encode()


def valid(folder: Path, scenes: list[Scene]) -> None:
    """Write a set without a fault."""
    _write(folder, scenes, members)


def captions_in_json(folder: Path, scenes: list[Scene]) -> None:
    """Move the captions into json, as many downloaders do.

    These are the example shards of the documentation.
    """
    write_examples(folder, scenes)


def truncated(folder: Path, scenes: list[Scene]) -> None:
    """Cut one shard in the middle of a member's header, as a broken download leaves it.

    All readers accept it silently.
    """
    valid(folder, scenes)
    path = folder / "002.tar"
    with tarfile.open(path) as tar:
        all_members = tar.getmembers()
        middle = all_members[len(all_members) // 2]
        cut = middle.offset + 100
    with path.open("r+b") as file:
        file.truncate(cut)


def interleaved(folder: Path, scenes: list[Scene]) -> None:
    """Write all pictures of a shard first and its captions after them.

    `tar --sort=...` by extension does the same.
    """
    _write(
        folder,
        scenes,
        lambda part: sorted(members(part), key=lambda member: member[0].rsplit(".", 1)[1]),
    )


def dotted_names(folder: Path, scenes: list[Scene]) -> None:
    """Name the files `photo.000123.jpg`: for WebDataset the sample's key ends at the first dot."""
    _write(folder, scenes, lambda part: ((f"photo.{name}", data) for name, data in members(part)))


def macos_twins(folder: Path, scenes: list[Scene]) -> None:
    """Add the `._` twins that tar writes on a Mac; inside a folder they tear each sample in two."""

    def twins(part: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
        for name, data in members(part):
            yield f"photos/._{name}", b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        "
            yield f"photos/{name}", data

    _write(folder, scenes, twins)


def huge_png(folder: Path, scenes: list[Scene]) -> None:
    """Replace one picture with a PNG of 200 megapixels.

    It is a few kilobytes in the tar, and over 800 MB once decoded.
    """

    def with_bomb(part: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
        for name, data in members(part):
            if name == "000100.jpg":
                yield "000100.png", white_png(20_000, 10_000)
            else:
                yield name, data

    _write(folder, scenes, with_bomb)


def latin1_caption(folder: Path, scenes: list[Scene]) -> None:
    """Write one caption in Latin-1.

    The loader drops the sample with a warning that names neither key nor shard.
    """

    def latin1(part: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
        for name, data in members(part):
            if name == "000042.txt":
                yield name, "un café près de la forêt".encode("latin-1")
            else:
                yield name, data

    _write(folder, scenes, latin1)


def lost_samples(folder: Path, scenes: list[Scene]) -> None:
    """Leave out the caption of one sample, and truncate the picture of another.

    Training loses both silently.
    """

    def faulty(part: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
        for name, data in members(part):
            if name == "000013.txt":
                continue
            yield name, data[: len(data) // 2] if name == "000027.jpg" else data

    _write(folder, scenes, faulty)


def labels_by_other_name(folder: Path, scenes: list[Scene]) -> None:
    """Write class numbers in place of captions, as `label`; timm wants them as `cls`."""

    def labelled(part: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
        for name, data in members(part):
            stem, _, suffix = name.rpartition(".")
            if suffix == "jpg":
                yield name, data
            elif suffix == "txt":
                class_number = len(data) % 10
                yield f"{stem}.label", str(class_number).encode()

    _write(folder, scenes, labelled)


def layouts(folder: Path, scenes: list[Scene]) -> None:
    """Write one shard for each kind of sample that is not an image-text pair.

    One conversation has one image token too many.
    """
    folder.mkdir(parents=True)
    numbered = list(enumerate(scenes[:10]))
    several = [
        (f"{number:03d}.{index}.jpg", scenes[number + index].jpeg)
        for number, _ in numbered
        for index in range(1 + number % 3)
    ]

    def with_texts(field: str, text: Callable[[int, int, Scene], bytes]) -> list[Member]:
        texts = [
            (f"{number:03d}.{field}", text(number, 1 + number % 3, scene))
            for number, scene in numbered
        ]
        return sorted(several + texts)

    _write_tar(
        folder / "several.tar",
        with_texts("txt", lambda _number, _images, scene: scene.caption.encode()),
    )
    talks = with_texts(
        "json", lambda number, images, scene: _conversation(images + (number == 7), scene)
    )
    _write_tar(folder / "conversations.tar", talks)
    _write_tar(
        folder / "documents.tar",
        with_texts("json", lambda _number, images, scene: _document(images, scene)),
    )
    clips = (("mp4", _clip(scene)) for _, scene in numbered)
    _write_tar(folder / "video.tar", _with_captions(clips, numbered))
    sounds = (
        ("flac" if number == 3 else "wav", _tone(200 + 50 * number)) for number, _ in numbered
    )
    _write_tar(folder / "audio.tar", _with_captions(sounds, numbered))


def photos(folder: Path, scenes: list[Scene]) -> None:
    """Write sources of shards next to the folder: images with a table, and folders of classes.

    Of the table, a row names a missing file, one a page of HTML, and one has no caption.
    """
    images, flags = folder.parent / "photos", folder.parent / "flags"
    (images / "img").mkdir(parents=True)
    rows = []
    for number, scene in enumerate(scenes):
        path = f"img/{number:03d}.jpg"
        rows.append(
            {"image": path, "caption": scene.caption, "id": f"photo.{number}", "licence": "CC0"}
        )
        (images / path).write_bytes(b"<html>404</html>" if number == 7 else scene.jpeg)
        group = flags / ("left" if number % 2 else "right") / f"{number:03d}.jpg"
        group.parent.mkdir(parents=True, exist_ok=True)
        group.write_bytes(scene.jpeg)
    (images / "img/003.jpg").unlink()
    rows[12]["caption"] = ""
    (images / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _with_captions(files: Iterable[Member], numbered: list[tuple[int, Scene]]) -> Iterator[Member]:
    for (number, scene), (field, data) in zip(numbered, files, strict=True):
        yield f"{number:03d}.{field}", data
        yield f"{number:03d}.txt", scene.caption.encode()


def _conversation(images: int, scene: Scene) -> bytes:
    question = {"from": "human", "value": "<image>\n" * images + "What is there?"}
    return json.dumps(
        {"conversations": [question, {"from": "gpt", "value": scene.caption}]}
    ).encode()


def _document(images: int, scene: Scene) -> bytes:
    info = [{"image_name": f"{index}.jpg", "matched_text_index": 0} for index in range(images)]
    return json.dumps({"text_list": [scene.caption], "image_info": info}).encode()


def _clip(scene: Scene) -> bytes:
    """Return an MP4 that shows one picture for half a second."""
    from importlib import import_module

    from PIL import Image

    # Not all of it has types.
    av = import_module("av")
    stream = io.BytesIO()
    with av.open(stream, "w", format="mp4") as container:
        track = container.add_stream("mpeg4", rate=10)
        track.width, track.height, track.pix_fmt = 64, 48, "yuv420p"
        frame = av.VideoFrame.from_image(
            Image.open(io.BytesIO(scene.jpeg)).convert("RGB").resize((64, 48))
        )
        for _ in range(5):
            container.mux(track.encode(frame))
        # What the encoder still holds.
        container.mux(track.encode(None))
    return stream.getvalue()


def _tone(hertz: int) -> bytes:
    """Return a WAV of a tenth of a second."""
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        for index in range(800):
            angle = 2 * math.pi * hertz * index / 8_000
            file.writeframes(struct.pack("<h", int(9_000 * math.sin(angle))))
    return stream.getvalue()


def white_png(width: int, height: int) -> bytes:
    """Return an all-white 1-bit PNG.

    It is compressed row by row, so the whole picture is never in memory.
    """
    squeeze = zlib.compressobj(9)
    row = b"\0" + b"\xff" * ((width + 7) // 8)
    data = b"".join(squeeze.compress(row) for _ in range(height)) + squeeze.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def _write(
    folder: Path,
    scenes: list[Scene],
    layout: Callable[[Iterable[tuple[int, Scene]]], Iterable[Member]],
) -> None:
    """Write a set of shards; ``layout`` makes the members of one from its numbered scenes."""
    folder.mkdir(parents=True)
    numbered = list(enumerate(scenes))
    size = math.ceil(len(numbered) / SHARDS)
    for shard in range(SHARDS):
        part = numbered[shard * size : (shard + 1) * size]
        _write_tar(folder / f"{shard:03d}.tar", layout(part))


def _write_tar(path: Path, contents: Iterable[Member]) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in contents:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
