"""``not duplicate_caption`` keeps the first sample with a caption."""

from pathlib import Path

from tests.filtering.shards import picture
from tests.shards.archives import names, write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards

HERE = RunOptions(jobs=0)
CAPTIONS = (("A  red Dog", "two", "a red dog"), ("two\n", "three", "a red dog"))


def kept(out: Path) -> list[str]:
    found = [name for path in sorted(out.glob("*.tar")) for name in names(path)]
    return [name.partition(".")[0] for name in found if name.endswith(".txt")]


def test_of_equal_captions_the_first_is_kept_in_all_commands(tmp_path: Path):
    (tmp_path / "in").mkdir()
    image = picture(40, 40)
    for shard, texts in enumerate(CAPTIONS):
        members = [(f"{shard}{at}.{name}", data) for at, text in enumerate(texts) for name, data in (("jpg", image), ("txt", text.encode()))]  # fmt: skip
        write_tar(tmp_path / "in" / f"{shard}.tar", members)
    source = str(tmp_path / "in")
    for name, where, keys in (
        ("all", "not duplicate_caption", ["00", "01", "11"]),
        ("kept", "key > '00' and not duplicate_caption(among='kept')", ["01", "02", "11"]),
        ("lost", "key > '00' and not duplicate_caption", ["01", "11"]),
    ):
        filter_shards(source, tmp_path / name, Recipe(where=where), HERE)
        assert kept(tmp_path / name) == keys
    measure_shards(source, tmp_path / "scored", Recipe(scores=("duplicate_caption", "key")), HERE)
    filter_shards(
        source,
        tmp_path / "cut",
        Recipe(where="not duplicate_caption"),
        HERE,
        ledger=tmp_path / "scored",
    )
    assert kept(tmp_path / "cut") == ["00", "01", "11"]
