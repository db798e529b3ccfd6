"""Commands and snippets that ``wdsflow validate`` prints.

Each works as it is pasted, and has the effect that it promises.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from support import faults

from tests.conformance.compare import RealReader, RealReaders, environments
from tests.conformance.generate import make_set
from tests.printed.follow import follow
from tests.printed.pasted import commands, paste, run, snippets, texts
from tests.printed.sets import PICTURE, SETS, write
from tests.validate.rules.build import samples
from tests.validate.rules.cases import CASES
from wdsflow import example_shards

READERS = ("open-clip-3.3", "webdataset-1", "datasets")
SEEDS = (5, 6, 36, 75, 87, 92, 145, 224)  # of shards for which a promise was once wrong
CLOSELY = (
    "some samples without json",
    "some samples without a caption",
    "captions in another field",
    "a cut shard",
    "empty captions",
)
GOLDEN = Path(__file__).parents[1] / "validate" / "advice" / "golden"


@pytest.fixture(scope="module")
def readers(real_readers: RealReaders) -> Iterator[Mapping[str, RealReader]]:
    at_hand = [
        each for each in environments(os.environ) if each.reader in READERS and not each.missing
    ]
    with ExitStack() as stack:
        yield {each.reader: stack.enter_context(real_readers.open(each)) for each in at_hand}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    # Sentences stay whole; commands are not wrapped at any width.
    monkeypatch.setenv("COLUMNS", "100000")


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.deep)])
def test_all_that_is_advised_works_and_brings_what_it_promises(tmp_path, readers, every):
    """One test, since the readers take longer to start than to read."""
    wrong = []
    sets = [*crafted(), *golden(), *of_the_demo(), *generated()][::every]
    for number, (name, level, make) in enumerate(sets):
        folder = tmp_path / str(number)
        folder.mkdir()
        urls = make(folder)
        # What generated json holds decides whether datasets
        # can make a table of it, which is not predicted.
        some = {
            each: reader
            for each, reader in readers.items()
            if each != "datasets" or "seed" not in name
        }
        wrong += [f"{name}, {level}: {each}" for each in follow(folder, urls, some, level)]
    assert wrong == []


# Name, level, what writes it into a folder and returns its urls.
Set = tuple[str, str, Callable[[Path], list[str]]]


def crafted() -> Iterator[Set]:
    for name, contents in SETS.items():
        for level in ("full", "headers") if name in CLOSELY else ("full",):
            yield name, level, partial(write, contents=contents)


def golden() -> Iterator[Set]:
    """Shards of rules for which a repair is advised."""
    for code, case in CASES.items():
        golden = GOLDEN / f"{code}.txt"
        if (
            not case.facts
            and golden.exists()
            and " wdsflow repair " in golden.read_text(encoding="utf-8")
        ):
            yield code, "full", case.write


def of_the_demo() -> Iterator[Set]:
    drawn = example_shards.draw(16)

    def written(
        fault: Callable[[Path, list[example_shards.Scene]], None], folder: Path
    ) -> list[str]:
        fault(folder / "s", drawn)
        return ["s/{000..003}.tar"]

    for fault in (faults.truncated, faults.macos_twins, faults.latin1_caption):
        yield fault.__name__, "full", partial(written, fault)


def generated() -> Iterator[Set]:
    def written(seed: int, folder: Path) -> list[str]:
        return [Path(url).name for url in make_set(seed, folder).urls]

    for seed in SEEDS:
        yield f"seed {seed}", "full", partial(written, seed)


@pytest.mark.deep
@pytest.mark.parametrize(
    "name",
    [
        "some samples without json",
        pytest.param("many shards with the same fault", marks=pytest.mark.deep),
    ],
)
def test_every_format_has_the_same_commands_whatever_the_width(tmp_path, monkeypatch, name):
    write(tmp_path, SETS[name])
    asked = ["s/*.tar", "--for", "open-clip-3.3", "--for", "webdataset-1", "--level", "full"]
    shown = run(["validate", *asked], tmp_path).out
    wanted = {each for each in commands(shown) if "wdsflow explain" not in each}
    assert wanted
    for form in ("json", "html"):
        assert (
            set(commands(texts(run(["validate", *asked, "--format", form], tmp_path).out, form)))
            == wanted
        )
    for width in ("20", "80"):
        monkeypatch.setenv("COLUMNS", width)
        narrow = run(["validate", *asked], tmp_path).out
        assert set(commands(narrow)) == set(commands(shown))
        assert snippets(narrow) == snippets(shown)


def test_repeated_images_and_captions_that_are_file_names_come_with_filters_that_leave_them_out(
    tmp_path,
):
    write(
        tmp_path,
        [
            [
                *samples(30, jpg=PICTURE, txt=b"a dog"),
                *samples(9, start=50, jpg=PICTURE, txt=b"IMG_0042.JPG"),
            ]
        ],
    )
    (tmp_path / "filtered").mkdir()
    report = run(["validate", "s", "--level", "full"], tmp_path).out
    found = {
        each.split("--where ")[1]: each
        for each in commands(report)
        if each.startswith("wdsflow filter")
    }
    assert list(found) == ["'not is_filename_like'", "'not duplicate'"]
    # None is in use.
    assert len({each.split(" -o ")[1].split()[0] for each in found.values()} | {"filtered"}) == 3
    for where, left in (("'not is_filename_like'", 30), ("'not duplicate'", 1)):
        assert f"    {left:2}  kept" in paste(found[where], tmp_path).out
