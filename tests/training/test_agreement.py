"""``wdsflow train --dry-run`` agrees with the training on every faulty set.

Both train, or both refuse for the same reason.
"""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support import faults

from tests.printed.sets import SETS, write
from tests.training.trainings import command, write_model
from tests.validate.rules.build import pairs
from wdsflow import FeedOptions
from wdsflow.example_shards import draw
from wdsflow.training.launch.preflight import preflight

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("open_clip_train") is None, reason="needs OpenCLIP"
)

DRAWN = (
    "valid",
    "truncated",
    "interleaved",
    "dotted_names",
    "macos_twins",
    "huge_png",
    "latin1_caption",
)
DRAWN += ("captions_in_json", "labels_by_other_name", "layouts")
SIDECARS: dict[str, dict[str, str]] = {
    "sizes.json lists not all": {"sizes.json": '{"0.tar": 9}'},
    "sizes.json is no object": {"sizes.json": "[9, 9]"},
    "sizes.json is cut": {"sizes.json": '{"0.tar": 9'},
    "sizes.json holds no numbers": {"sizes.json": '{"0.tar": "many", "1.tar": null}'},
    "sizes.json holds a negative number": {"sizes.json": '{"0.tar": -3, "1.tar": 9}'},
    "sizes.json holds zeros": {"sizes.json": '{"0.tar": 0, "1.tar": 0}'},
    "__len__ is no number": {"__len__": "nine"},
    "__len__ is below zero": {"__len__": "-9"},
    "sizes.json counts more than there is": {"sizes.json": '{"0.tar": 30, "1.tar": 9}'},
}


def pattern(folder: Path) -> str:
    return "::".join(sorted(map(str, folder.glob("*.tar"))))


def set_of(kind: str, name: str, folder: Path) -> str:
    """Write a set; return its pattern."""
    if kind == "drawn":
        getattr(faults, name)(folder / "d", draw(128))
        return pattern(folder / "d")
    if kind == "printed":
        write(folder, SETS[name])
        return pattern(folder / "s")
    write(folder, [pairs(9), pairs(9, start=20)] if name != "all missing" else [])
    for file, text in SIDECARS.get(name, {}).items():
        (folder / "s" / file).write_text(text)
    if name == "missing, not in sizes.json":
        (folder / "s" / "sizes.json").write_text('{"0.tar": 9, "1.tar": 9}')
    if name == "a shard is empty":
        (folder / "s" / "2.tar").write_bytes(b"")
    if name == "a shard is a web page":
        (folder / "s" / "2.tar").write_bytes(b"<html>404</html>" * 100)
    return f"{folder}/s/{{0..{1 if name in SIDECARS else 2}}}.tar"


OTHERS = (
    "all missing",
    "missing",
    "missing, not in sizes.json",
    "a shard is empty",
    "a shard is a web page",
    *SIDECARS,
)
CASES = (
    [("drawn", name) for name in DRAWN]
    + [("printed", name) for name in SETS]
    + [("other", name) for name in OTHERS]
)
QUICK = {  # the exit status of the training
    ("other", "missing, not in sizes.json"): 0,
    ("printed", "captions in json"): 1,
    ("other", "all missing"): 1,
}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(*case, id=case[1], marks=[] if case in QUICK else pytest.mark.deep)
        for case in CASES
    ],
)
def test_a_dry_run_and_the_run_agree(tmp_path, drive: Callable[..., list[str]], kind, name):
    data = set_of(kind, name, tmp_path)
    write_model(tmp_path)
    argv = command(
        tmp_path,
        "run",
        "--train-data",
        data,
        "--workers",
        "1",
        "--batch-size",
        "2",
        "--epochs",
        "1",
    )
    at = argv.index("--train-num-samples")
    del argv[at : at + 2]
    asked = preflight(argv, FeedOptions(argv=tuple(argv)), dry_run=True)
    assert asked is not None
    metrics = tmp_path / "metrics.jsonl"
    words = ["--no-preflight", "--status-every", "0", "--metrics", str(metrics), "--", *argv]
    [status] = drive([{"words": words, "name": str(tmp_path / "run")}])
    said = (tmp_path / "run.0.said").read_text()
    assert "Traceback" not in said, said[-3000:]
    assert status == str(int(asked.refused)), (asked.lines, said[-3000:])
    if (kind, name) in QUICK:
        assert int(status) == QUICK[kind, name]
    if asked.refused:
        return
    damaged = {
        shard.url
        for shard in asked.reports[0].evidence.shards
        if shard.error or shard.stop.kind != "end"
    }
    last = json.loads(metrics.read_text().splitlines()[-1])
    assert {url for url, _, _ in last["damaged"]} == damaged
