"""What is suggested for shards and ledgers that are not there, by the files around."""

from pathlib import Path

from tests.golden_file import check_text
from wdsflow.cli.shared.nearest_paths import nearest_ledger, nearest_shards

GOLDEN = Path(__file__).parent / "golden" / "nearest.txt"
FILES = (
    "shards/00000.tar", "shards/00001.tar", "shards/00002.tar.gz", "shards/00000.txt", "shards/00000.json",
    "shards/.00004.tar", "deep/train/0.tar", "deep/val/0.tar", "only/one/deeper/a.tar", "empty/readme.md",
    "lines/a.jsonl", "upper/A.TAR", "tars/x.tar/inside.tar", "odd/00000.tr", "train.tar", "list.txt", "notes.txt",
    "scored/.wdsflow/run.json", "scored-2/.wdsflow/ledger/0.parquet", "filtered/.wdsflow/other.json",
)  # fmt: skip
ASKED = (
    "shards", "shards/00000.ta", "shards/0000.tar", "shards/00009.tar", "shards/zzz", "shards/{00000-00001}.tar",
    "shards/{00000..00001}.tar", "shards/{00000..00001}.tgz", "shards/*.zip", "shards/*.tar", "shards/{a..b}", "shard",
    "shards/more/00000.tar", "shrads/00000.tar", "shrads/no.tar", "deep", "deep/trian", "deep/trian/0.tar", "deep/x", "only",
    "only/two", "empty", "empty/x.tar", "lines/a.json", "lines/c.jsonl", "upper/A.tar", "upper/a.tr", "tars/x.ta",
    "tars/x.tar/inside.ta", "odd/00000.tar", "odd", "tarin.tar", "train.tar", "list.txt", "notes.txt", "notes.tx", "@lst.txt",
    "nowhere/at/all.tar", "", ".", "./shrads/00000.tar", "http://x/0.tar", "http://x/{0-3}.tar", "shards/{0-3}.tar",
    ".wdsflow", "scored", "shards/", "shards/00000", "shards/00000.tar.gz",
)  # fmt: skip
LEDGERS = ("scored", "scores", "scord-2", "shards", "nowhere/scored", "shards/scored", "", "zzz")


def test_what_is_meant_by_a_path_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    Path("list.txt").write_text("shards/00000.tar\n")
    lines = [f"{asked!r}: {nearest_shards(asked)!r}" for asked in ASKED]
    lines += [
        f"{tmp_path / asked}: {nearest_shards(str(tmp_path / asked))}"
        for asked in ("shrads", "odd/00000.tar")
    ]
    lines += [f"ledgers of {asked!r}: {nearest_ledger(Path(asked))}" for asked in LEDGERS]
    monkeypatch.chdir("deep")
    lines += [
        f"in deep, {asked!r}: {nearest_shards(asked)!r}"
        for asked in ("tran", "trian/*.tar", "0.tar", "../odd/x.tar")
    ]
    lines += [
        f"in deep, ledgers of {asked!r}: {nearest_ledger(Path(asked))}"
        for asked in ("scored", "../scord", "../x/y")
    ]
    check_text(GOLDEN, "nearest", "\n".join(lines).replace(str(tmp_path), "/PLACE"))
