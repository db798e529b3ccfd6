"""Folders as other programs leave them.

Other files next to the shards are not read as shards, and long names stay distinct.
"""

import io
import json
import pickle
import tarfile
from pathlib import Path

import pytest

from tests.cli.shards import jpeg
from wdsflow.cli.main import main

SAMPLES = 6


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def write(path: Path, keys: list[str], image: str = "jpg", data: bytes = b"") -> None:
    """Write a shard as Python's tarfile does by default.

    It has PAX headers for times with fractions.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for key in keys:
            for kind, content in (
                (image, data or jpeg()),
                ("txt", b"a picture"),
                ("json", b'{"width": 32}'),
            ):
                member = tarfile.TarInfo(f"{key}.{kind}")
                member.size, member.mtime = len(content), 1_700_000_000.25
                tar.addfile(member, io.BytesIO(content))


def energon(folder: Path, *, deeper: bool = False) -> list[Path]:
    """Write a set as prepared by Megatron-Energon 7.

    It has an index of 8 bytes a sample next to each shard, and a folder of its own.
    """
    shards = [
        folder / (f"parts/data-{n}" if deeper else "") / f"shard_{n:03d}.tar" for n in range(2)
    ]
    for number, shard in enumerate(shards):
        write(shard, [f"{number}{sample:05d}" for sample in range(SAMPLES)])
        shard.with_name(f"{shard.name}.idx").write_bytes(
            b"".join(n.to_bytes(8, "little") for n in range(SAMPLES + 1))
        )
    (folder / ".nv-meta").mkdir()
    for name in ("dataset.yaml", "split.yaml", "index.uuid", "index.sqlite", "old.tar"):
        (folder / ".nv-meta" / name).write_bytes(b"sample_type:\n")
    return shards


def ray(folder: Path, **member: object) -> list[Path]:
    """Write a set as Ray's ``write_webdataset`` does, which Data-Juicer 1.6 exports.

    Shards have names of 64 characters, and samples have random keys.
    """
    shards = [
        folder / f"03521Bg0GrWQggJPiFHWul_314c9eae391d4062a867b02d375612db_{n:06d}.tar"
        for n in range(3)
    ]
    for number, shard in enumerate(shards):
        write(shard, [f"{number}{sample:031x}" for sample in range(SAMPLES)], **member)  # type: ignore[arg-type]
    return shards


@pytest.mark.deep
@pytest.mark.parametrize(
    ("make", "pattern"),
    [(energon, ""), (energon, "/*"), (energon, "/*.tar*"), (ray, ""), (ray, "/*")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_shards_and_nothing_beside_them_are_read(make, pattern, tmp_path: Path, capsys):
    count = len(make(tmp_path / "in"))
    named = f"{tmp_path}/in{pattern}"
    assert (
        run("validate", named, "--for", "open-clip-3.3", "--for", "datasets", "--format", "json")
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert (len(report["shards"]), report["samples"]) == (count, count * SAMPLES)
    assert {verdict["usable"] for verdict in report["verdicts"]} == {count * SAMPLES}
    for command in (("filter", "--where", "min_side > 0", "--jobs", 0), ("repair",)):
        out = tmp_path / command[0]
        assert run(command[0], named, "-o", out, *command[1:]) == 0
        assert sorted(path.name for path in out.glob("*.tar*")) == sorted(
            path.name for path in (tmp_path / "in").glob("*.tar")
        )
        capsys.readouterr()
        assert run("validate", out, "--format", "json") == 0
        assert json.loads(capsys.readouterr().out)["samples"] == count * SAMPLES


@pytest.mark.deep
def test_a_list_of_pictures_in_one_member_is_no_picture(tmp_path: Path, capsys):
    ray(tmp_path, image="jpgs", data=pickle.dumps([jpeg(), jpeg()]))
    assert run("validate", tmp_path, "--for", "open-clip-3.3") == 1
    shown = capsys.readouterr().out
    assert "no image field; they have jpgs, json, txt" in " ".join(shown.split())
    assert "--rename" not in shown  # a list under the name of a picture would not decode


def test_long_names_of_shards_keep_the_number_at_their_end(tmp_path: Path, capsys):
    shards = ray(tmp_path)
    assert run("validate", tmp_path) == 0
    shown = capsys.readouterr().out
    assert all(f"...{shard.name[-32:]}:" in shown for shard in shards)


def test_shards_in_folders_of_a_folder_are_named_with_a_pattern_that_finds_them(
    tmp_path: Path, monkeypatch, capsys
):
    energon(tmp_path / "[1] in", deeper=True)
    monkeypatch.chdir(tmp_path)
    assert run("validate", "[1] in") == 2
    *_, hint, again = capsys.readouterr().err.splitlines()
    assert hint == "  the folder [1] in has no .tar itself; subfolders have: '[[]1] in/**/*.tar*'"
    assert again == "  wdsflow validate '[[]1] in/**/*.tar*'"
    assert run("validate", "[[]1] in/**/*.tar*", "--format", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["shards"]) == 2
