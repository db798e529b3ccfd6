"""Names found by a glob, a folder or a list are files, whatever they look like.

Nothing is run, and all samples are read.
"""

import importlib.util
import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import wdsflow
from tests.filtering.commands import Done, pasted, run
from tests.training.shards import arguments, jpeg, samples, write_tar
from wdsflow.cli.main import COMMANDS
from wdsflow.shards.shard import Shard
from wdsflow.shards.urls import PipeNotAllowed, expand
from wdsflow.shards.written_names import pattern_of_shard

needs_openclip = pytest.mark.skipif(
    importlib.util.find_spec("open_clip_train") is None, reason="needs OpenCLIP"
)

# Names that look like commands, urls, lists, patterns, options and comments; and odd ones.
NAMES = [
    "pipe:touch PWNED #.tar",
    "s3:x.tar",
    "hf:x.tar",
    "file:x.tar",
    "https:x.tar",
    "a::b.tar",
    "@x.tar",
    "~x.tar",
    "-x.tar",
    "t{1..2}.tar",
    "x?y.tar",
    "[a].tar",
    "*.tar",
    "#.tar",
    "%41.tar",
    "${HOME}.tar",
    " sp ace .tar",
    "new\nline.tar",
    "\udcff.tar",
]
IN_EACH = 4
KEYS = {f"{shard:03d}{number:04d}" for shard in range(len(NAMES)) for number in range(IN_EACH)}
BOTH = pytest.mark.parametrize("named", ["*.tar", pytest.param(".", marks=pytest.mark.deep)])


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make the folder of the shards the current one; at the end nothing has been run."""
    folder = tmp_path / "in"
    for number, name in enumerate(NAMES):
        write_tar(folder / name, samples(number, IN_EACH))
    monkeypatch.chdir(folder)
    yield tmp_path
    assert not list(tmp_path.rglob("PWNED*"))


def read_by(*words: object) -> int:
    """Return how many samples ``validate`` finds."""
    done = run("validate", *words, "--format", "json")
    assert done.status == 0, done
    return int(json.loads(done.out)["samples"])


def ended_well(*words: object) -> Done:
    done = run(*words)
    assert done.status == 0, done
    return done


def through_lists(folder: Path) -> str:
    """List the shards, one a line, as far as a line can name them."""
    lines = [
        pattern_of_shard(shard)
        for shard in expand(["*.tar"], allow_pipe=False).urls
        if "\n" not in shard
    ]
    (folder / "list.txt").write_text("\n".join(lines), encoding="utf-8", errors="surrogateescape")
    return f"@{folder / 'list.txt'}"


WALKED = {
    "validate",
    "inspect",
    "repair",
    "measure",
    "scores",
    "report",
    "filter",
    "status",
    "merge",
    "reshard",
}
WALKED |= {"graft", "index", "pack", "train"}
WITHOUT_SHARDS = {"explain", "doctor"}


def test_no_command_is_left_out():
    assert set(COMMANDS) == WALKED | WITHOUT_SHARDS


@BOTH
def test_shards_are_judged_and_shown(odd: Path, named: str):
    assert read_by(named, "--level", "full") == len(KEYS)
    shown = ended_well("inspect", named, "--keys", "100", "--json")
    assert {sample["key"] for sample in json.loads(shown.out)["first_samples"]} == KEYS
    one = ended_well("inspect", named, "--show", "0000001", "--json")
    assert [sample["shard"] for sample in json.loads(one.out)["samples"]] == [
        "./pipe:touch PWNED #.tar"
    ]
    page = odd / "page.html"
    ended_well("validate", named, "--format", "html", "--output", page)
    assert page.exists()


def test_a_list_names_files(odd: Path):
    assert read_by(through_lists(odd)) == len(KEYS) - IN_EACH  # all but the name with a line break


@BOTH
def test_shards_are_written_again(odd: Path, named: str):
    ended_well("repair", named, "-o", odd / "repaired")
    ended_well("reshard", named, "-o", odd / "even", "--samples", "10")
    (odd / "table.csv").write_text(
        "".join(["key,alt\n", *(f"{key},new {key}\n" for key in sorted(KEYS))])
    )
    ended_well(
        "graft",
        named,
        "--from",
        odd / "table.csv",
        "--on",
        "key",
        "--set",
        "alt=alt",
        "-o",
        odd / "grafted",
    )
    for out in ("repaired", "even", "grafted"):
        assert read_by(odd / out) == len(KEYS)


@BOTH
def test_shards_are_scored_and_filtered_and_resumed(odd: Path, named: str):
    scores = ("--scores", "width,caption_words", "--jobs", "0")
    ended_well("measure", named, "-o", odd / "scored", *scores)
    run_file = json.loads((odd / "scored" / ".wdsflow" / "run.json").read_text())
    assert len(run_file["urls"]) == len(NAMES)
    assert all(os.path.exists(url) for url in run_file["urls"])
    again = ended_well("measure", named, "-o", odd / "scored", *scores)
    assert f"{len(NAMES)} of them done before" in again.out
    ended_well("scores", "--ledger", odd / "scored")
    ended_well(
        "filter", named, "-o", odd / "cut", "--ledger", odd / "scored", "--where", "width >= 10"
    )
    ended_well("filter", named, "-o", odd / "kept", "--where", "width >= 10", "--jobs", "0")
    ended_well("report", odd / "kept")
    for out in ("cut", "kept"):
        assert read_by(odd / out) == len(KEYS)


@pytest.mark.deep
def test_slices_of_a_job_array_read_files(odd: Path):
    for index in range(3):
        words = (
            "--where",
            "width >= 10",
            "--shard-index",
            index,
            "--shard-count",
            3,
            "--jobs",
            "0",
        )
        ended_well("filter", "*.tar", "-o", odd / "kept", *words)
    ended_well("status", odd / "kept")
    ended_well("merge", odd / "kept")
    assert read_by(odd / "kept") == len(KEYS)


def test_indexes_list_files(odd: Path):
    ended_well("index", ".", "--sizes", "--len", "--timm", "--energon", "-o", odd / "index")
    sizes = json.loads((odd / "index" / "sizes.json").read_text())
    assert set(sizes) == set(NAMES)
    # The indexes next to the shards are read again, and name files as well.
    ended_well("index", ".", "--sizes", "--len", "--timm", "--energon")
    assert read_by(".", "--for", "energon", "--for", "open-clip") == len(KEYS)


def test_files_of_a_folder_are_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "files"
    folder.mkdir()
    stems = ["pipe:touch PWNED #", "file:x", "s3:x", "@x", "-x", "t{1,2}", "[a]", "%41", "plain"]
    for number, stem in enumerate(stems):
        (folder / f"{stem}.jpg").write_bytes(jpeg(number))
        (folder / f"{stem}.txt").write_text(f"caption {number}")
    monkeypatch.chdir(folder)
    ended_well("pack", ".", "-o", tmp_path / "packed")
    assert read_by(tmp_path / "packed") == len(stems)
    (tmp_path / "tables").mkdir()
    for number, name in enumerate(("pipe:touch PWNED #.jsonl", "file:x.jsonl", "@x.jsonl")):
        (tmp_path / "tables" / name).write_text(
            json.dumps({"image": f"{stems[number + 3]}.jpg", "caption": "c"}) + "\n"
        )
    monkeypatch.chdir(tmp_path / "tables")
    done = run("pack", "*.jsonl", "-o", tmp_path / "tabled", "--root", folder)
    assert done.status == 0, done
    assert read_by(tmp_path / "tabled") == 3
    assert not list(tmp_path.rglob("PWNED*"))


@pytest.mark.sample(1)
@needs_openclip
@BOTH
def test_trainings_are_checked_and_fed(odd: Path, named: str):
    words = (
        "--workers",
        "1",
        "--batch-size",
        "4",
        "--train-num-samples",
        "60",
        "--dataset-type",
        "webdataset",
    )
    dry = run("train", "--dry-run", "--", "--train-data", named, *words)
    assert f"{len(NAMES)} shards, {len(KEYS)} samples, {len(KEYS)} usable" in dry.err, dry
    feed = wdsflow.feed(named, batch_size=4, fields=("__key__", "txt"), seed=1)
    assert {key for batch in feed for key in batch[0]} == KEYS
    args = arguments(
        train_data=named, train_num_samples=None, workers=1, batch_size=4, dataset_type="webdataset"
    )
    options = wdsflow.FeedOptions(schedule="balanced", status_every=0.0, decoders=1)
    data = wdsflow.get_data(args, (_pixels, _pixels), tokenizer=None, options=options)
    batches = [
        batch[1] if isinstance(batch, list | tuple) else batch["text"]
        for batch in data["train"].dataloader
    ]
    assert {text for batch in batches for text in batch} == {
        f"{shard}/{number}" for shard in range(len(NAMES)) for number in range(IN_EACH)
    }


def _pixels(image: object) -> object:
    import torch

    del image
    return torch.zeros(3, 8, 8)


@pytest.mark.deep
@needs_openclip
def test_mixes_and_ledgers_name_files(odd: Path):
    ended_well("measure", "*.tar", "-o", odd / "scored", "--scores", "caption_words", "--jobs", "0")
    kept = wdsflow.feed(
        "*.tar",
        batch_size=4,
        fields=("__key__", "txt"),
        ledger=odd / "scored",
        where="caption_words > 0",
    )
    assert {key for batch in kept for key in batch[0]} == KEYS
    mixed = wdsflow.feed(
        {"*.tar": 1.0, str(odd / "in" / "#.tar"): 1.0}, batch_size=4, fields=("__key__", "txt")
    )
    assert {key for batch in mixed for key in batch[0]} == KEYS


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_each_name_is_one_shard_in_python_and_when_it_is_printed(odd: Path, number: int):
    """What is printed for a shard leads back to it, and so does what is stored."""
    (shard,) = [
        found
        for found in expand(["*.tar"], allow_pipe=False).urls
        if os.path.samefile(found, NAMES[number])
    ]
    assert os.path.samefile(str(Shard.from_text(str(shard)).path), NAMES[number])
    (again,) = expand([pattern_of_shard(shard)], allow_pipe=False).urls
    assert os.path.samefile(again, NAMES[number])
    (kept,) = expand([shard], allow_pipe=False).urls
    assert kept is shard


def test_commands_that_are_printed_name_the_files(odd: Path):
    for number, name in enumerate(NAMES):
        if "\n" in name or not name.isprintable():
            continue
        members = samples(number, IN_EACH)
        # Members of a sample are not together.
        write_tar(odd / "in" / name, [*members[::2], *members[1::2]])
    done = run("validate", ".", "--format", "json")
    (verdict,) = json.loads(done.out)["verdicts"]
    command = verdict["advice"][0]["command"]
    words = shlex.split(command)
    assert words[:2] == ["wdsflow", "repair"]
    assert pasted(command).status in (0, 1)
    assert read_by(words[words.index("-o") + 1]) == len(KEYS)


def test_a_command_is_still_a_command_where_the_user_writes_one(odd: Path):
    with pytest.raises(PipeNotAllowed):
        expand(["pipe:touch PWNED #.tar"], allow_pipe=False)
    (shard,) = expand(["pipe:touch x #.tar"], allow_pipe=True).urls
    assert (shard.kind, shard.exact) == ("pipe", "pipe:touch x #.tar")


PYTHON: dict[str, Callable[[str], object]] = {
    "check": wdsflow.check,
    "repair": lambda urls: wdsflow.repair_shards(urls, "out"),
    "filter": lambda urls: wdsflow.filter_shards(urls, "out", wdsflow.Recipe(where="width > 1")),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", PYTHON)
def test_functions_take_what_an_earlier_call_has_found(odd: Path, name: str):
    """A shard that was found stays a shard when it is given to another function."""
    found = expand(["*.tar"], allow_pipe=False).urls
    PYTHON[name](found)  # type: ignore[arg-type]
