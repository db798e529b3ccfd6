"""What functions refuse before they read or write anything, word by word."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.golden_file import check_text
from tests.shards.archives import write_tar
from wdsflow import FeedOptions, index_shards, repair_shards
from wdsflow.reshaping.graft.run_graft import graft_shards
from wdsflow.reshaping.reshard.run_reshard import reshard_shards

GOLDEN = Path(__file__).parent / "golden" / "whole_refusals.txt"
JOIN: dict[str, Any] = {"table": "t.csv", "on": "key", "fields": ["txt=caption"]}
CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (index_shards, ("in",), {"jobs": 0}),
    (index_shards, ("in",), {"kinds": ["sizes", "tfrecord"]}),
    (index_shards, ("pipe:cat in/0.tar",), {"out": "out"}),
    (index_shards, ("http://127.0.0.1:1/0.tar",), {}),
    (index_shards, (["in/0.tar", "two/0.tar"],), {"out": "out"}),
    (index_shards, ("none",), {}),
    (repair_shards, ("in", "out"), {"jobs": 0}),
    (repair_shards, ("in", "in"), {}),
    (repair_shards, ("in", "out"), {"caption": "json:"}),
    (repair_shards, ("in", "out"), {"rename": {"jpg": "a/b"}}),
    (repair_shards, ("none", "out"), {}),
    (graft_shards, ("in", "out"), {**JOIN, "jobs": 0}),
    (graft_shards, ("in", "in"), JOIN),
    (graft_shards, ("in", "out"), {**JOIN, "on": "size"}),
    (graft_shards, ("in", "out"), {**JOIN, "fields": []}),
    (graft_shards, ("in", "out"), {**JOIN, "table": "none.csv"}),
    (reshard_shards, ("in", "out"), {"samples": 3, "jobs": 0}),
    (reshard_shards, ("in", "out"), {"samples": 0}),
    (reshard_shards, ("in", "out"), {"size": "0B"}),
    (reshard_shards, ("in", "out"), {"divisible_by": "2x0"}),
    (reshard_shards, ("in", "out"), {"samples": 3, "folds": 1}),
    (reshard_shards, ("in", "out"), {"samples": 3, "even_for": "x"}),
    (reshard_shards, ("in", "out"), {"samples": 3, "by_key": True, "shuffle": 1}),
    (reshard_shards, ("in", "in"), {"samples": 3}),
    *[
        (FeedOptions, (), each)
        for each in (
            {"decode": "quick"}, {"schedule": "even"}, {"decode_in": "there"}, {"memory": "lots"}, {"decoders": 0},
            {"decoders": -1}, {"stall_after": 0.0}, {"stall_samples": 0}, {"max_pixels": 0}, {"ledger": "x"}, {"where": "x"},
        )
    ],
]  # fmt: skip


def test_what_is_refused_is_refused_with_these_words_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("in", "two"):
        Path(folder).mkdir()
        write_tar(Path(folder, "0.tar"), [("a.jpg", b"1"), ("a.txt", b"2")])
    Path("t.csv").write_text("key,caption\na,b\n")
    before = sorted(tmp_path.rglob("*"))
    lines = []
    for function, words, named in CALLS:
        try:
            found = function(*words, **named)
        except (ValueError, TypeError, OSError) as error:
            said = f"{type(error).__name__}: {error}"
        else:
            said = f"fine: {found}"
        lines.append(f"{function.__name__} {words} {named}: {said}")
        assert sorted(tmp_path.rglob("*")) == before, lines[-1]
    check_text(GOLDEN, "refusals", "\n".join(lines).replace(str(tmp_path), "/PLACE"))
