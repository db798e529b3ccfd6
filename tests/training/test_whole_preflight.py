"""All that is said about shards before training, word by word."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli import shards
from tests.golden_file import check_text
from wdsflow import FeedOptions
from wdsflow.shards.short_look import spread_selection
from wdsflow.shards.source.base import single_shard
from wdsflow.training.launch import preflight

GOLDEN = Path(__file__).parent / "golden" / "preflight.txt"
IMAGE = shards.jpeg()
PAIR = {"jpg": IMAGE, "txt": b"a cat"}
SAMPLES = {
    "pairs": [PAIR] * 8,
    "few": [PAIR] * 2,
    "json": [{"jpg": IMAGE, "json": b'{"alt": "a cat"}'}] * 8,
    "json without captions": [{"jpg": IMAGE, "json": b'{"id": 3}'}] * 8,
    "images elsewhere": [{"img": IMAGE, "txt": b"a cat"}] * 8,
    "both elsewhere": [{"img": IMAGE, "caption": b"a cat"}] * 8,
    "text in json": [
        {"json": b'{"texts": ["a"], "images": ["a.jpg"], "matched_text_index": [0]}', "jpg": IMAGE}
    ]
    * 8,
    "mixed": [*[PAIR] * 6, {"jpg": IMAGE}, {"txt": b"b"}],
    "captions alone": [{"txt": b"b"}] * 3,
    "empty": [],
}
CASES: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "sound shards": ("pairs", [], {}),
    "sound shards, dry run": ("mixed", [], {"dry_run": True}),
    "losses": ("mixed", [], {}),
    "too few for all workers": ("few", ["--workers", "4"], {}),
    "too few for a batch": ("few", ["--batch-size", "64"], {}),
    "as many as a batch": ("few", ["--batch-size", "2"], {}),
    "too few, balanced": ("few", ["--workers", "4"], {"schedule": "balanced"}),
    "too few for the ranks": ("few", [], {"world_size": 8}),
    "json": ("json", [], {}),
    "json, asked for text and json": ("json", [], {"caption": "txt|json:title"}),
    "json, asked for another name": ("json", [], {"caption": "json:title"}),
    "json without captions": ("json without captions", [], {}),
    "images elsewhere": ("images elsewhere", [], {}),
    "both elsewhere": ("both elsewhere", [], {"k": 3.0}),
    "both elsewhere, dry run": ("both elsewhere", [], {"dry_run": True}),
    "another layout": ("text in json", [], {"caption": "json:texts"}),
    "captions alone": ("captions alone", [], {}),
    "no samples": ("empty", [], {}),
    "weights without resampling": ("pairs", ["--train-data-upsampling-factors", "1"], {}),
    "weights": ("pairs", ["--train-data-upsampling-factors", "1", "--dataset-resampled"], {}),
    "naflex": ("pairs", ["--force-naflex-vision", "--use-naflex"], {}),
    "wrong arguments": ("pairs", ["--workers", "many"], {}),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", CASES)
def test_the_preflight_says_what_the_golden_file_has(name, tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    what, argv, options = CASES[name]
    asked = {each: options[each] for each in ("world_size", "dry_run") if each in options}
    more = {each: value for each, value in options.items() if each not in asked}
    data = write(tmp_path, SAMPLES[what])
    argv = ["--train-data", data, "--workers", "2", "--batch-size", "4", *argv]
    check_text(
        GOLDEN, name, shown(preflight.preflight(argv, FeedOptions(**more), **asked), tmp_path)
    )


@pytest.mark.deep
def test_the_shards_for_evaluation_are_looked_at_too(tmp_path):
    train, val = tmp_path / "train", tmp_path / "val"
    train.mkdir()
    val.mkdir()
    argv = ["--train-data", write(train, SAMPLES["pairs"]), "--workers", "1", "--batch-size", "4"]
    texts = []
    for what in ("pairs", "json", "empty"):
        found = preflight.preflight([*argv, "--val-data", write(val, SAMPLES[what])], FeedOptions())
        texts.append(f"{what}:\n{shown(found, tmp_path)}")
    texts.append(
        shown(
            preflight.preflight([*argv, "--val-data", f"{tmp_path}/no.tar"], FeedOptions()),
            tmp_path,
        )
    )
    texts.append(
        shown(preflight.preflight(["--train-data", f"{tmp_path}/no.tar"], FeedOptions()), tmp_path)
    )
    check_text(GOLDEN, "evaluation", "\n".join(texts))


def test_shards_that_are_cut_in_their_first_sample_are_fetched_again(tmp_path):
    data = write(tmp_path, SAMPLES["pairs"])
    for number in range(2):
        shard = tmp_path / f"{number}.tar"
        shard.write_bytes(shard.read_bytes()[:600])
    found = preflight.preflight(
        ["--train-data", data, "--workers", "1", "--batch-size", "4"], FeedOptions()
    )
    assert found.refused
    said = "fetch them again; to see what is wrong: wdsflow validate"
    assert [line for line in found.lines if said in line] == [
        f"  no shard has a whole sample: {said} {tmp_path}/0.tar"
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("argv", [[], ["--train-num-samples", "6"]])
def test_what_follows_damage_is_not_counted(argv, tmp_path):
    data = write(tmp_path, SAMPLES["pairs"])
    first = tmp_path / "0.tar"
    whole = first.read_bytes()
    first.write_bytes(whole.replace(b"0004.jpg", b"0\xff04.jpg", 1))
    found = preflight.preflight(
        ["--train-data", data, "--workers", "2", "--batch-size", "4", *argv],
        FeedOptions(),
        dry_run=True,
    )
    check_text(GOLDEN, f"damage {' '.join(argv)}".strip(), shown(found, tmp_path))


def write(folder, samples):
    for number in range(2):
        members = {
            f"{number}{at:03d}.{field}": data
            for at, one in enumerate(samples)
            for field, data in one.items()
        }
        shards.write(folder / f"{number}.tar", members)
    return f"{folder}/{{0..1}}.tar"


def shown(found, folder):
    """Return the lines, and what became of each report."""
    if found is None:
        return "not looked at"
    lines = [
        *found.lines,
        f"refused {found.refused}, nothing read {found.nothing_read}: {found.why}",
    ]
    for report in found.reports:
        lines += [f"report: {report.level}, {len(report.forecasts)} forecasts"]
        lines += [
            f"  forecast: {each.length_source} {each.epochs_checked} {each.exact} {len(each.stalled)} {each.notes}"
            for each in report.forecasts
        ]
        lines += [f"  {each.outcome}: {each.usable} of {each.samples}" for each in report.verdicts]
        lines += [f"  {each.severity} {each.code}: {each.message}" for each in report.findings]
    return re.sub(r"\d+\.\d s\b", "# s", "\n".join(lines).replace(str(folder), "/DATA"))


@pytest.mark.parametrize(
    ("first", "most"),
    [("0.tar", 2000), ("pipe:cat ", 4), ("http://x/", 200), ("s3://x/", 200)],
)
def test_of_many_shards_some_that_lie_evenly_are_read(first, most):
    urls = [single_shard(f"{first}{number}") for number in range(most)]
    assert spread_selection(urls) == urls
    more = [single_shard(f"{first}{number}") for number in range(2 * most + 1)]
    chosen = spread_selection(more)
    assert len(chosen) == most
    assert chosen[:3] == [more[0], more[2], more[4]]
    assert chosen[-1] == more[(most - 1) * (2 * most + 1) // most]
    assert spread_selection([]) == []
