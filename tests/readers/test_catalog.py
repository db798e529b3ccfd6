import ast
import pickle
import re
from dataclasses import fields
from pathlib import Path

import pytest

from tests.trees import nodes
from wdsflow.readers import READERS, UnknownReader, resolve
from wdsflow.readers.base import Reader
from wdsflow.readers.open_clip.versions import FeedReader
from wdsflow.scan.shapes import Part
from wdsflow.shards.tar.members import Stop
from wdsflow.validate.check_options import CheckOptions
from wdsflow.validate.verdicts.wording import CRASHES, LOSSES

STATUSES = (
    "ok",
    "?",
    "-",
    "bad",
    "empty",
    "blank",
    "not-utf8",
    "no-caption",
    "bomb",
    "big",
    "big-bad",
    "unsafe",
)
FIELDS = (
    "jpg",
    "webp",
    "JPG",
    "gif",
    "txt",
    "TXT",
    "json",
    "cls",
    "npy",
    "pth",
    "x.gz",
    "__key__",
    "__bad__",
    "",
)


def test_open_clip_means_the_installed_version() -> None:
    assert resolve("open-clip", {}) == ["open-clip-3.3"]
    assert resolve("open-clip", {"open_clip_torch": "3.3.0"}) == ["open-clip-3.3"]
    assert resolve("open-clip", {"open_clip_torch": "4.2.0.dev0"}) == ["open-clip-4"]
    assert resolve("datasets", {}) == ["datasets"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("open-clip-3", "did you mean open-clip-3.3?"), ("dataset", "did you mean datasets?")],
)
def test_a_name_that_is_nearly_right_is_named(name: str, hint: str) -> None:
    with pytest.raises(UnknownReader) as error:
        resolve(name, {})

    assert hint in str(error.value)


def test_a_name_that_is_all_wrong_lists_what_there_is() -> None:
    with pytest.raises(UnknownReader) as error:
        resolve("tfds!!", {})

    assert ", ".join(("open-clip", *READERS)) in str(error.value)


def test_the_help_of_for_names_every_reader() -> None:
    option = next(each for each in fields(CheckOptions) if each.name == "readers").metadata[
        "option"
    ]

    assert [
        name for name in READERS if name not in re.split(r"[ ,]+", option.help.rstrip("."))
    ] == []


@pytest.mark.sample(4)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_every_pair_of_fields_has_a_fate_that_has_words(reader: type[Reader]) -> None:
    made = reader()
    parts = [Part(field, status) for field in FIELDS for status in STATUSES]
    for first in parts:
        for second in (part for part in parts if part.status in ("ok", "bad", "empty")):
            fates = made.fates((first, second))
            assert fates
            for fate in fates:
                words = {**LOSSES, **CRASHES} if fate.kind == "crash" else LOSSES
                assert fate.kind == "usable" or fate.reason in words
            assert made.fates((first, second)) == fates


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_every_way_to_end_a_shard_has_an_answer_that_has_words(reader: type[Reader]) -> None:
    made: Reader = pickle.loads(pickle.dumps(reader()))
    for kind in ("end", "eof", "silent", "error", "unreadable"):
        crash = made.crash_at_stop(Stop(kind))
        assert crash is None or crash.reason in CRASHES


@pytest.mark.xdist_group("syntax trees")
def test_code_asks_what_a_reader_does_and_not_what_it_is_called() -> None:
    """The code uses attributes of ``Reader``, which have defaults, not reader names.

    A comparison of names would forget a new reader.
    """
    # The others are names of packages and of indexes, too.
    names = {*READERS, FeedReader.name} - {"datasets", "timm", "energon"}
    root = Path(__file__).parents[2]
    spelled: set[tuple[str, str]] = set()
    for path in (*(root / "wdsflow").rglob("*.py"), *(root / "validate").rglob("*.py")):
        for node in nodes(path):
            if isinstance(node, ast.Constant) and node.value in names:
                spelled.add((path.relative_to(root).as_posix(), str(node.value)))
    # Each name is spelled once: where its class is.
    assert sorted(name for _, name in spelled) == sorted(names)
    assert all(path.startswith("wdsflow/readers/") for path, _ in spelled)
