"""A case for each rule, by code: the smallest shards that make it speak."""

import gzip

from tests.sounds import wav
from tests.validate.rules import build
from tests.validate.rules.build import ZEROS, Case, claims, jpeg, pairs, png, samples, tar, words
from tests.validate.rules.layout_sets import IMAGE, named, several, talk
from wdsflow.readers.base import Options
from wdsflow.scan.evidence import Tally
from wdsflow.scan.shapes import Part, Run, Runs, ShapeCount

SOUND = tar(pairs(30))
READERS = ("open-clip-3.3", "open-clip-4", "webdataset-1", "datasets", "ray-data")


def one(*members: tuple[str, bytes], sound: int = 30, **more: object) -> Case:
    """Return a case with one shard: valid samples, then these members."""
    return Case({"0.tar": tar([*pairs(sound), *members])}, **more)  # type: ignore[arg-type]


def image(data: bytes, name: str = "900.jpg", **more: object) -> Case:
    """Return a case with one odd image among valid ones."""
    return one((name, data), ("900.txt", b"a cat"), **more)


def caption(text: bytes, **more: object) -> Case:
    """Return a case with one odd caption among valid ones."""
    return one(("900.jpg", jpeg()), ("900.txt", text), **more)


def interleaved(count: int = 10) -> bytes:
    """Return a tar with all images before all captions."""
    return tar(sorted(pairs(count), key=lambda member: member[0][-3:]))


def renamed(old: str, new: str, count: int = 30) -> bytes:
    """Return a tar in which one field has another name."""
    return tar([(name.replace(f".{old}", f".{new}"), data) for name, data in pairs(count)])


def samples_in(folder: str, field: str, data: bytes, count: int = 3) -> list[tuple[str, bytes]]:
    """Return members of one field in a folder of their own."""
    return [(f"{folder}/{index:03d}.{field}", data) for index in range(count)]


def second(key: str, *fields: tuple[str, bytes]) -> bytes:
    """Return a tar that begins with a sample of the given fields."""
    return tar([*((f"{key}.{name}", data) for name, data in fields), *pairs(5, start=500)])


JSON = {"url": "https://example.org/a.jpg", "caption": "a brown dog in the snow", "width": 64}
LONE = [("000.jpg", jpeg()), ("000.txt", b"a dog")]

CASES: dict[str, Case] = {
    # tar and names
    "W001": Case({"0.tar": SOUND[:-5000], "1.tar": SOUND[:-3900]}),
    "W002": Case({"0.tar": SOUND[: 3584 * 10] + b"\xff" * 512 + SOUND[3584 * 10 + 512 :]}),
    "W003": Case({"0.tar": SOUND + tar(pairs(4, start=700))}),
    "W004": Case({"0.tar": SOUND}, facts={"compression": "gz"}),
    "W005": Case({"0.tar": b"<html>404 Not Found</html>" * 40, "1.tar": b"", "2.tar": SOUND}),
    "W006": Case({"0.tar": interleaved()}),
    "W007": Case(
        {"0.tar": tar([*pairs(30), ("900.jpg", jpeg()), ("900.JPG", jpeg()), ("900.txt", b"a")])}
    ),
    "W008": Case({"0.tar": SOUND, "1.tar": tar(pairs(30, start=500)), "2.tar": SOUND}),
    "W009": Case(
        {"0.tar": tar([*pairs(30), ("900.jpg", jpeg())]), "1.tar": second("900", ("txt", b"a cat"))}
    ),
    "W010": one(("photo 2.0 (x).jpg", jpeg()), ("photo 2.0 (x).txt", b"a cat")),
    "W011": one(("README", b"hello")),
    "W012": Case(
        {"0.tar": tar([m for n, d in pairs(3) for m in (("d/._" + n, b"\0"), ("d/" + n, d))])}
    ),
    "W013": Case({"0.tar": renamed("jpg", "JPG")}, readers=("open-clip-3.3", "ray-data")),
    "W014": one(("../../etc/900.jpg", jpeg()), ("/abs/901.jpg", jpeg())),
    "W015": Case(
        {"0.tar": SOUND}, facts={"tallies": {"tar.huge-member": Tally(1, None, 512, "000.bin")}}
    ),
    "W016": one(("caf\udce9.jpg", jpeg()), ("caf\udce9.txt", b"a cup")),
    "W017": Case({"0.tar": SOUND, "1.tar": ZEROS, "2.tar": tar([])}),
    "W018": Case({"0.tar": tar(pairs(30), end=False), "1.tar": tar(pairs(30)[:-1], end=False)}),
    "W019": Case({"0.tar": SOUND + b"rubbish" * 100}),
    "W020": Case({"0.tar": SOUND, "1.tar": None}),
    "W021": Case(
        {"0.tar": tar(pairs(30)[:-1]), "1.tar": second("029", ("txt", b"a cat"), ("jpg", jpeg()))}
    ),
    "W022": one(("__MACOSX/._a.jpg", b"\0")),
    "W023": one((".DS_Store", b"\0")),
    "W024": Case(
        {"0.tar": tar([*pairs(30), ("900.jpg", jpeg()), build.link("900.txt", "000.txt")])}
    ),
    "W025": Case(
        {"0.tar": SOUND}, facts={"tallies": {"tar.sparse": Tally(2, "000", 512, "000.bin")}}
    ),
    "W026": Case({"0.tar": tar([*pairs(30), build.fifo("900.txt")])}),
    "W027": Case({"0.tar": tar(pairs(30), mtime=1.5)}),
    "W028": one(("a\x1b[31m\nb.jpg", jpeg()), ("a\x1b[31m\nb.txt", b"a cat")),
    "W029": Case(
        {"0.tar": tar([*samples_in("img", "jpg", jpeg()), *samples_in("txt", "txt", b"a dog")])}
    ),
    "W030": Case(
        {
            "0.tar": tar(
                [(("./" if name.endswith("jpg") else "") + name, data) for name, data in pairs(9)]
            )
        }
    ),
    "W031": one(*((f"long.{number}", b"x") for number in range(1100))),
    "W032": one(("__info__", b"hello")),
    "W033": one(("Zürich.jpg", jpeg()), ("Zürich.txt", b"a town")),
    # fields and captions
    "F101": Case({"0.tar": tar(samples(30, jpg=jpeg(), json=words(JSON)))}, readers=READERS),
    "F102": one(
        ("900.jpg", jpeg()), ("901.txt", b"a cat"), ("README.md", b"hello"), readers=READERS
    ),
    "F103": Case(
        {"0.tar": SOUND, "1.tar": renamed("jpg", "gif"), "2.tar": renamed("txt", "caption", 2)}
    ),
    "F104": image(png()),
    "F105": Case(
        {"0.tar": SOUND, "1.tar": tar(samples(4, 500, png=png(), txt=b"a"))}, readers=READERS
    ),
    "F106": Case(
        {
            "0.tar": SOUND,
            "1.tar": tar(pairs(30, 100)),
            "2.tar": tar(pairs(30, 200, json=words(JSON))),
        }
    ),
    "F107": one(
        *[("900.jpg", jpeg()), ("900.txt", b"a cat"), ("900.json", b"{'a': 1}")],
        *[("901.jpg", jpeg()), ("901.txt", b"a cat"), ("901.json", b"[" * 100_000)],
        *[("902.jpg", jpeg()), ("902.txt", b"a cat"), ("902.json", b"[]")],
        readers=READERS[:2],
    ),
    "F108": Case(
        {
            "0.tar": tar(
                [
                    *samples(30, jpg=jpeg(), json=words(JSON)),
                    *samples(2, 900, jpg=jpeg(), json=b"{}"),
                ]
            )
        },
        readers=("open-clip-4",),
        options=Options(json_text_key="caption;text"),
    ),
    "F109": caption("café".encode("latin-1"), readers=READERS),
    "F110": Case(
        {"0.tar": tar([*pairs(2), *pairs(3, 10, json=words(JSON))])},
        readers=("open-clip-3.3", "datasets"),
    ),
    "F111": one(("900.jpg", jpeg()), ("900.txt", b"a cat"), ("900.pickle", b"\x80\x04N.")),
    "F112": one(
        *LONE,
        ("900.jpg", jpeg()),
        ("900.txt", b" \n"),
        ("901.jpg", jpeg()),
        ("901.txt", b""),
        sound=0,
    ),
    "F113": caption("\ufeffa \x1b[31mcat".encode()),
    "F114": caption(b"<b>a</b> cat &amp; a dog"),
    "F115": caption(b"nan"),
    "F116": caption(b"IMG_0042.JPG"),
    "F117": caption("cafÃ© crÃ¨me".encode()),
    "F118": caption(b"cat " * 76),
    "F119": caption(b"cat " * 300_000),
    "F120": one(("900.jpg", jpeg()), ("900.txt.gz", gzip.compress(b"a cat", mtime=0))),
    "F121": Case(
        {"0.tar": tar([*pairs(1, id=b"17"), *pairs(3, 10, id=b"0x17")])}, readers=READERS[:2]
    ),
    "F122": Case(
        {"0.tar": tar(pairs(3, mp=b"\x80"))},
        facts={
            "tallies": {"field.needs-library": Tally(3, "000", 5120, "mp")},
            "runs": Runs(
                Run("000", 0, (Part("jpg", "ok"), Part("txt", "ok"), Part("mp", "no-library"))),
                (
                    ShapeCount(
                        (Part("jpg", "ok"), Part("txt", "ok"), Part("mp", "no-library")),
                        1,
                        "001",
                        4608,
                        (),
                    ),
                ),
                Run("002", 9000, (Part("jpg", "ok"), Part("txt", "ok"), Part("mp", "no-library"))),
            ),
        },
    ),
    "F123": Case({"0.tar": tar(pairs(3, png=png()))}, readers=("open-clip-3.3", "open-clip-4")),
    "F124": Case({"0.tar": tar([*pairs(25), *samples(1, 900, jpg=jpeg(), txt=b"a cat")])}),
    "F125": Case(
        {"0.tar": tar(samples(3, jpg=jpeg(), json=words(JSON)))},
        readers=("open-clip-4",),
        options=Options(text_key="txt;json"),
    ),
    "F126": Case(
        {
            "0.tar": tar(
                [
                    *pairs(6, json=words(JSON)),
                    *pairs(2, start=6, json=words(JSON | {"width": "unknown"})),
                ]
            ),
            "1.tar": tar(pairs(1, start=8, json=words(["a list"]))),
        },
        readers=READERS,
    ),
    "F127": one(
        *(("900.jpg", jpeg()), ("900.txt", b"a cat"), ("900.__bad__", b"1")),
        *(("901.jpg", jpeg()), ("901.txt", b"a cat"), ("901.__bad__", b"")),
        readers=("open-clip-3.3", "ray-data"),
    ),
    "F128": one(
        *(("900.jpg", jpeg()), ("900.__key__", b"900"), ("900.txt", b"a cat")),
        *(("901.jpg", jpeg()), ("901.txt", b"a cat"), ("901.__url__", b"a.tar")),
        readers=("open-clip-3.3", "webdataset-1"),
    ),
    # images
    "I201": image(
        png()[:40] + b"\xff" * 60 + png()[100:], name="900.png", level="full", readers=READERS[:3]
    ),
    "I202": image(jpeg()[:-200], level="full"),
    "I203": image(claims(20_000, 15_000), readers=READERS[:3]),
    "I204": image(jpeg((20, 16))),
    "I205": image(png((1000, 40)), name="900.png"),
    "I206": image(jpeg(mode="CMYK", pad=4096)),
    "I207": image(build.animation(), name="900.webp"),
    "I208": image(build.uniform(), name="900.png", level="full"),
    "I209": Case({"0.tar": SOUND, "1.tar": tar(pairs(30, start=500))}, level="full"),
    "I210": image(b"<!DOCTYPE html><title>404</title>"),
    "I211": image(claims(10_000, 9_500)),
    "I212": Case(
        {"0.tar": tar([*pairs(30), ("900.png", claims(6000, 5000)), ("900.txt", b"a map")])},
        readers=READERS[:2],
        options=Options(max_image_pixels=25_000_000),
    ),
    "I213": image(png(mode="I;16"), name="900.png"),
    "I214": image(png(mode="RGBA"), name="900.png"),
    "I215": image(build.rotated()),
    "I216": image(b""),
    "I217": image(b"\0" * 100),
    "I218": image(
        jpeg((200, 200), pad=0)[:-900] + b"\0" * 8 + jpeg((200, 200), pad=0)[-892:], level="full"
    ),
    "I219": Case({"0.tar": tar(samples(3, png=claims(4000, 3000), txt=b"a map"))}),
    # several images, interleaved, video and audio
    "L401": Case(
        {"0.tar": tar([*several([1, 2, 3], named), *samples(2, 900, jpg=IMAGE, json=talk(2))])}
    ),
    "L402": Case(
        {"0.tar": tar([*several([1, 2, 3], named), ("900.0.jpg", IMAGE), ("900.json", named(2))])}
    ),
    "L403": Case(
        {
            "0.tar": tar(
                [*samples(30, wav=wav(), txt=b"a cat"), *samples(2, 900, flac=wav(), txt=b"a cat")]
            )
        }
    ),
    "L404": Case(
        {
            "0.tar": tar(
                [
                    *samples(30, wav=wav(), txt=b"a cat"),
                    *samples(1, 900, wav=b"<html>404</html>", txt=b"a cat"),
                    *samples(1, 901, wav=b"", txt=b"a cat"),
                ]
            )
        }
    ),
    "L405": Case(
        {
            "0.tar": tar(
                [
                    *samples(30, wav=wav(), txt=b"a cat"),
                    *samples(1, 900, wav=wav()[:900], txt=b"a cat"),
                ]
            )
        }
    ),
    "L406": Case({"0.tar": tar(pairs(30, wav=wav()))}, readers=READERS),
}
