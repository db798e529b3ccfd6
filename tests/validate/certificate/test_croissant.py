"""Croissant metadata, read by MLCommons' own package."""

import importlib
import json
import os
import re
import subprocess
import sys
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

import pytest
from support import faults

from tests.cli import shards
from tests.cli.test_verify import run
from tests.test_readme import img2dataset
from wdsflow import example_shards
from wdsflow.scan.evidence import ScanOptions
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.certificate import CertificateError
from wdsflow.validate.certify import croissant, not_tars

PYTHON = os.environ.get("WDSFLOW_MLCROISSANT", sys.executable)  # of an environment that has mlcroissant
_READ = """
import json, sys
import mlcroissant
data = mlcroissant.Dataset(jsonld=sys.argv[1])
found = {}
for each in data.metadata.record_sets:
    rows = list(data.records(each.id))
    key, content = f"{each.id}/__key__", f"{each.id}/content"
    show = lambda value: value.decode() if isinstance(value, bytes) else list(value.size)
    found[each.id] = {row[key].decode(): show(row[content]) for row in rows}
print(json.dumps({"errors": list(data.metadata.ctx.issues.errors), "records": found}))
"""


def has_mlcroissant():
    return subprocess.run([PYTHON, "-c", "import mlcroissant"], capture_output=True, check=False).returncode == 0


def read(path, cache):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [PYTHON, "-c", _READ, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "CROISSANT_CACHE": str(cache)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_real_package_reads_images_captions_and_json_from_the_tars(tmp_path):
    if not has_mlcroissant():
        pytest.skip("mlcroissant is not installed")
    drawn = example_shards.draw(12)
    img2dataset(tmp_path / "set", drawn)
    assert run("validate", tmp_path / "set", "--croissant", tmp_path / "croissant.json") == 0
    found = read(tmp_path / "croissant.json", tmp_path / "cache")
    assert found["errors"] == []
    records = found["records"]
    assert set(records) == {"jpg", "txt", "json"}
    assert {len(each) for each in records.values()} == {12}
    assert sorted(records["txt"].values()) == sorted(scene.caption for scene in drawn)
    assert {key: json.loads(text)["caption"] for key, text in records["json"].items()} == records["txt"]
    assert records["jpg"].keys() == records["txt"].keys()
    assert all(len(size) == 2 for size in records["jpg"].values())


def test_one_shard_and_fields_in_upper_case_are_read_too(tmp_path):
    if not has_mlcroissant():
        pytest.skip("mlcroissant is not installed")
    members = {f"a/{n}.{kind}": data for n in range(3) for kind, data in (("JPG", shards.jpeg()), ("txt", b"words"))}
    shards.write(tmp_path / "0.tar", members)
    run("validate", tmp_path / "0.tar", "--croissant", tmp_path / "croissant.json")
    records = read(tmp_path / "croissant.json", tmp_path / "cache")["records"]
    assert {field: sorted(each) for field, each in records.items()} == {
        "jpg": ["a/0", "a/1", "a/2"],
        "txt": ["a/0", "a/1", "a/2"],
    }


@pytest.mark.parametrize("module", ["gzip", "bz2", "lzma"])
def test_compressed_shards_are_read_and_one_that_is_no_tar_does_not_end_the_reading(tmp_path, module):
    if not has_mlcroissant():
        pytest.skip("mlcroissant is not installed")
    packed_set(tmp_path / "set", module)
    run("validate", tmp_path / "set", "--croissant", tmp_path / "croissant.json")
    records = read(tmp_path / "croissant.json", tmp_path / "cache")["records"]
    assert {field: len(each) for field, each in records.items()} == {"jpg": 16, "txt": 16}


def packed_set(folder, module):
    """Two compressed shards, and a web page under the name of a shard."""
    folder.mkdir()
    shards.with_txt(folder)
    for path in list(folder.iterdir()):
        packed = importlib.import_module(module).compress(path.read_bytes())
        path.with_suffix(f".tar.{ {'gzip': 'gz', 'lzma': 'xz'}.get(module, module) }").write_bytes(packed)
        path.unlink()
    (folder / "0002.tar").write_bytes(b"<!DOCTYPE html><html>404</html>")
    (folder / "0003.tar").write_bytes(b"")


def test_only_tars_are_listed_and_compressed_ones_are_called_tars(tmp_path, capsys):
    packed_set(tmp_path / "set", "gzip")
    assert run("validate", tmp_path / "set", "--croissant", tmp_path / "croissant.json") == 1
    tree = json.loads((tmp_path / "croissant.json").read_bytes())
    tars = {each["contentUrl"]: each["encodingFormat"] for each in tree["distribution"] if "sha256" in each}
    assert tars == {f"set/{n:04d}.tar.gz": "application/x-tar" for n in range(2)}
    ids = [{"@id": each["@id"]} for each in tree["distribution"] if "sha256" in each]
    assert [each["containedIn"] for each in tree["distribution"] if "includes" in each] == [ids, ids]
    assert f"{tmp_path}/set/0002.tar, {tmp_path}/set/0003.tar" in capsys.readouterr().err
    assert run("validate", tmp_path / "set/0002.tar", "--croissant", tmp_path / "none.json") == 2
    assert not (tmp_path / "none.json").exists()


def test_every_tar_has_its_hash_and_every_field_its_files(tmp_path):
    faults.captions_in_json(tmp_path / "set", example_shards.draw(8))
    assert run("validate", tmp_path / "set", "--croissant", tmp_path / "croissant.json") == 1  # captions are in json
    tree = json.loads((tmp_path / "croissant.json").read_bytes())
    tars = {each["contentUrl"]: each["sha256"] for each in tree["distribution"] if "sha256" in each}
    assert tars == {
        f"set/{n:03d}.tar": sha256((tmp_path / "set" / f"{n:03d}.tar").read_bytes()).hexdigest() for n in range(4)
    }
    assert [each["includes"] for each in tree["distribution"] if "includes" in each] == ["*.jpg", "*.json"]
    assert "description" in tree["recordSet"][1]["description"]


def test_a_field_whose_name_ends_as_another_is_kept_apart(tmp_path):
    members = {f"{n}.{kind}": shards.jpeg() for n in range(3) for kind in ("jpg", "seg.jpg")}
    shards.write(tmp_path / "0.tar", members)
    run("validate", tmp_path / "0.tar", "--croissant", tmp_path / "croissant.json")
    tree = json.loads((tmp_path / "croissant.json").read_bytes())
    sets = {
        each["@id"]: (each["includes"], each.get("excludes")) for each in tree["distribution"] if "includes" in each
    }
    assert sets == {"jpg-files": ("*.jpg", ["*.seg.jpg"]), "seg.jpg-files": ("*.seg.jpg", None)}


def test_no_metadata_are_written_of_shards_that_were_not_all_read(tmp_path, capsys):
    shards.with_txt(tmp_path)
    (tmp_path / "0001.tar").unlink()
    assert run("validate", f"{tmp_path}/{{0000..0001}}.tar", "--croissant", tmp_path / "c.json") == 1
    assert "no Croissant metadata written" in capsys.readouterr().err
    assert not (tmp_path / "c.json").exists()


def test_metadata_of_odd_fields_is_what_the_golden_file_says(tmp_path):
    """``WDSFLOW_UPDATE_GOLDENS=1 pytest ...`` writes the file again."""
    names = ["jpg", "seg.png", "png", "TXT", "json", "a[b]", "a b", "npy"]
    for number, samples in enumerate((2, 1)):
        members = {f"{number}{at}.{name}": b'{"b": 1, "a": "x"}' for at in range(samples) for name in names}
        shards.write(tmp_path / f"{number} é.tar", {**members, f"{number}9.txt": b"a", "README": b"r"})
    (tmp_path / "2.tar").write_bytes(b"<html>404</html>" * 99)
    urls = sorted(map(str, tmp_path.glob("*.tar")))
    found = [scan_shard(url, ScanOptions("headers", identify=True)) for url in urls]
    (tmp_path / "in").mkdir()
    written = [json.loads(croissant(found, tmp_path / name)) for name in ("c.json", "in/c.json", "elsewhere/c.json")]
    assert [each["distribution"][0]["contentUrl"] for each in written[:2]] == ["0 é.tar", "../0 é.tar"]
    tree = written[0]
    assert tree.pop("dateModified") == datetime.now(timezone.utc).date().isoformat()
    assert tree.pop("name") == re.sub(r"[^\w.-]+", "-", tmp_path.name).strip("-")
    text = json.dumps(tree, indent=1, ensure_ascii=False) + "\n"
    golden = Path(__file__).parent / "croissant.txt"
    if os.environ.get("WDSFLOW_UPDATE_GOLDENS"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert not_tars(found) == [str(tmp_path / "2.tar")]
    with pytest.raises(CertificateError, match="no shard is a tar"):
        croissant(found[2:], tmp_path / "c.json")
    with pytest.raises(CertificateError, match=r"2\.tar was not read: not a tar: looks like HTML page"):
        croissant([scan_shard(urls[2], ScanOptions("headers"))], tmp_path / "c.json")
