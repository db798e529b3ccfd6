"""Members of samples with several images, conversations, documents, sound."""

from tests.sounds import wav
from tests.validate.rules.build import Members, jpeg, pairs, png, samples, words

IMAGE = jpeg()


def talk(images, files=None, **more):
    """Return LLaVA's json with so many image tokens and the names of files."""
    turns = [
        {"from": "human", "value": "<image>\n" * images + "What is it?"},
        {"from": "gpt", "value": "A cat."},
    ]
    return words(
        {"id": "a", **({} if files is None else {"image": files}), "conversations": turns, **more}
    )


def chat(images):
    """Return messages in which images are parts."""
    parts = [{"type": "image"}] * images + [{"type": "text", "text": "What is it?"}]
    return words(
        {
            "messages": [
                {"role": "user", "content": parts},
                {"role": "assistant", "content": "A cat."},
            ]
        }
    )


def mmc4(files):
    info = [{"image_name": name, "matched_text_index": 0} for name in files]
    return words({"text_list": ["a cat", "a dog"], "image_info": info})


def obelics(images):
    """Return a document whose images are addresses."""
    addresses = [f"https://example.com/{number}.jpg" for number in range(images)]
    return words({"images": [*addresses, None], "texts": [*[None] * images, "a cat"]})


def several(numbers, json=None, text=b"two cats") -> Members:
    """Return samples with several numbered images each.

    ``numbers``: images per sample. ``json`` makes the json from that number.
    """
    members: Members = []
    for sample, images in enumerate(numbers):
        members += [(f"{sample:03d}.{image}.jpg", IMAGE) for image in range(images)]
        members += [(f"{sample:03d}.json", json(images))] if json else [(f"{sample:03d}.txt", text)]
    return members


def named(images):
    return talk(images, [f"{number}.jpg" for number in range(images)])


LAYOUTS: dict[str, Members] = {
    "image-text pairs": pairs(4),
    "images with json": samples(4, jpg=IMAGE, json=words({"caption": "a cat"})),
    "images with class numbers": samples(4, jpg=IMAGE, cls=b"3"),
    "several images with captions, 1 to 3 images a sample": several([1, 2, 3, 1, 1, 1, 1]),
    "several images with captions, 2 images a sample": [
        (f"{key}.{name}", data)
        for key in "012"
        for name, data in (("a.jpg", IMAGE), ("b.jpg", IMAGE), ("txt", b"cats"))
    ],
    "several images with captions, 3 images a sample": samples(
        3, txt=b"cats", **{"jpg": IMAGE, "0.png": png(), "1.jpg": IMAGE}
    ),
    "interleaved image-text (LLaVA conversations), 1 image a sample": samples(
        4, jpg=IMAGE, json=talk(1, "coco/7.jpg")
    ),
    "interleaved image-text (LLaVA conversations), 1 to 3 images a sample": several(
        [1, 3, 2], named
    ),
    "interleaved image-text (chat messages), 0 to 2 images a sample": several([2, 0, 1], chat),
    "interleaved image-text (MMC4 documents), 1 to 2 images a sample": several(
        [2, 1, 2], lambda images: mmc4([f"{number}.jpg" for number in range(images)])
    ),
    "interleaved image-text (OBELICS documents), 1 to 3 images a sample": several(
        [3, 1, 1], obelics
    ),
    "interleaved video-text (LLaVA conversations)": samples(
        3, mp4=b"\0\0\0\x08free", json=talk(1, video="a.mp4")
    ),
    "video with json": samples(3, mp4=b"\0\0\0\x08free", json=words({"caption": "a cat"})),
    "video with captions": samples(3, webm=b"\x1aE\xdf\xa3", jpg=IMAGE, txt=b"a cat"),
    "audio with captions": samples(3, wav=wav(), txt=b"a cat"),
    "audio with json": samples(3, **{"0.flac": b"fLaC"}, json=words({"speaker": "a"})),
    "audio": samples(3, mp3=b"\xff\xfb\x90\x64"),
    "text": samples(3, txt=b"a cat"),
    "": samples(3, npy=b"x"),
}
