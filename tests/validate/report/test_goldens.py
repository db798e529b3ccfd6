"""Whole reports of small sets in every format, character by character.

``WDSFLOW_UPDATE_GOLDENS=1 pytest ...`` writes the files again.
"""

import gzip
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from tests.golden_file import check_file
from tests.validate.rules.build import jpeg, pairs, samples, tar, words
from tests.validate.rules.cases import JSON, SOUND
from wdsflow import check
from wdsflow.text.install import install_packages
from wdsflow.validate import Report
from wdsflow.validate.report import html, render, report_text

GOLDEN = Path(__file__).parent / "golden"
ALL = ("open-clip-3.3", "open-clip-4", "webdataset-1", "datasets", "ray-data")


def packed(count: int, cut: int = 0, flip: int = 0) -> bytes:
    """Return a gzipped tar, stored without compression: its bytes depend on no version of zlib."""
    data = bytearray(gzip.compress(tar(pairs(count)), 0, mtime=0))
    data[flip or -1] ^= 1 if flip else 0
    return bytes(data[: len(data) - cut])


# What lies in the folder -> shards by name.
SETS: dict[str, dict[str, bytes]] = {
    "sound": {"0.tar": SOUND, "1.tar": tar(pairs(30, 100))},
    "captions-in-json": {
        f"{n}.tar": tar(samples(20, 20 * n, jpg=jpeg(), json=words(JSON))) for n in range(7)
    },
    "cut": {
        "0.tar": SOUND[:-5000],
        "1.tar": SOUND[:-3900],
        "2.tar": b"<html>404</html>" * 40,
        "3.tar": SOUND,
    },
    "mixed": {
        "0.tar": tar(
            [*pairs(30), ("900.jpg", jpeg()), ("901.txt", b"a cat"), ("README.md", b"hello")]
        ),
        "1.tar": tar(
            [
                *pairs(20, 100),
                *samples(4, 200, jpg=jpeg(), json=words(JSON)),
                ("a\x1b[31m.jpg", b""),
            ]
        ),
        "2.tar": tar(
            [
                *samples(9, 300, jpeg=jpeg(), txt=b"a cow"),
                ("400.jpg", b"no image"),
                ("400.txt", b"\xff"),
            ]
        ),
    },
    "compressed": {
        "0.tar.gz": packed(4),
        "1.tar.gz": packed(4, cut=4),
        "2.tar.gz": packed(4, cut=1024 + 8),
        "3.tar.gz": packed(4, cut=3000),
        "4.tar.gz": packed(4, flip=2000),
        "5.tar.gz": packed(4, flip=-6),
    },
    "odd": {
        "0.tar": SOUND + tar(pairs(4, 700)),
        "1.tar": tar(
            [
                *[
                    *pairs(3, 50),
                    ("800.jpg", jpeg()),
                    ("801.txt", b"a"),
                    ("802.json", b"{}"),
                    ("803.jpg", b"no"),
                ],
                *[
                    ("803.txt", b"a"),
                    ("804.jpg", jpeg()),
                    ("804.txt", b"\xff"),
                    ("805.jpg", jpeg()),
                    ("805.txt", b""),
                ],
                *[
                    ("806.jpg", jpeg()),
                    ("806.txt", b"a"),
                    ("806.cls", b"x"),
                    ("__info__", b"i"),
                    ("807.jpg", jpeg()),
                ],
                *[
                    ("__info__", b"i"),
                    ("807.txt", b"a"),
                    ("808.jpg", jpeg()),
                    ("808.pyd", b"N."),
                    ("808.txt", b"a"),
                ],
                *[
                    ("809.jpg", jpeg()),
                    ("809.JPG", jpeg()),
                    ("809.txt", b"a"),
                    ("810.gif", b"GIF89a"),
                    ("810.txt", b"a"),
                ],
            ]
        ),
    },
    "refused": {"0.tar": b"<html>404</html>" * 40, "1.tar": b""},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def written(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        for shard, data in SETS[name].items():
            (folder / shard).write_bytes(data)
        return folder

    return written


@pytest.fixture(scope="module")
def report() -> Callable[[str], Report]:
    @cache
    def checked(name: str) -> Report:
        readers = ALL if name in ("mixed", "odd") else ALL[:2]
        found = check(sorted(SETS[name]), readers, level="full", jobs=1)
        return replace(found, seconds=1.25, versions={"wdsflow": "0.1.0"})

    return checked


def as_text(report: Report) -> str:
    buffer = io.StringIO()
    report_text.show_summary(report, Console(file=buffer, width=100, color_system=None))
    return "\n".join(
        [buffer.getvalue(), *(report_text.render(report, width) for width in (100, 44))]
    )


def as_json(report: Report) -> str:
    return render(report, "json")


def as_element(report: Report) -> str:
    return re.sub(r"<style>.*?</style>", "", html.fragment(report), flags=re.DOTALL)


def as_sarif(report: Report) -> str:
    tree = json.loads(render(report, "sarif"))
    driver = tree["runs"][0]["tool"]["driver"]
    # Their texts are pages of the manual.
    driver["rules"] = [rule["id"] for rule in driver["rules"]]
    del driver["version"], driver["semanticVersion"]
    return json.dumps(tree, indent=1) + "\n"


FORMATS: dict[str, Callable[[Report], str]] = {
    "txt": as_text,
    "json": as_json,
    "html": as_element,
    "sarif": as_sarif,
    "github": lambda report: render(report, "github"),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    # A set with many faults, for which repairs are advised for all readers, takes seconds.
    "name",
    [
        pytest.param(name, marks=pytest.mark.deep if name in {"mixed", "odd"} else ())
        for name in SETS
    ],
)
def test_a_report_is_what_the_golden_file_says(
    name: str,
    form: str,
    report: Callable[[str], Report],
    folder: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder(name))
    # Differs from one installation to the next.
    installer = install_packages("*").removesuffix("'*'")
    text = (
        FORMATS[form](report(name))
        .replace(installer, "pip install ")
        .replace(f"{folder(name)}/", "")
    )
    check_file(GOLDEN / f"{name}.{form}", text)
