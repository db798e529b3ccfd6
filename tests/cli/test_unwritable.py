"""Files that cannot be written.

One line has the path and the reason, the status is 2, and old contents are kept.
"""

import contextlib
import resource
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.shards.archives import JPEG, write_tar
from wdsflow.cli.main import main
from wdsflow.cli.shared.output_files import is_device

OLD = "an older file\n"


@contextlib.contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Let no file of this process grow beyond some bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> str:
    """Two shards of samples with long keys, so that lists of them are long as well."""
    folder, random = tmp_path_factory.mktemp("shards"), Random(1)
    for shard in range(2):
        keys = [f"{shard}{n:03}-{random.randbytes(40).hex()}" for n in range(90)]
        write_tar(
            folder / f"{shard}.tar",
            [
                (f"{key}.{kind}", data)
                for key in keys
                for kind, data in (("jpg", JPEG), ("txt", b"a cat"))
            ],
        )
    return str(folder)


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def assert_named(told: str, path: Path) -> None:
    message, hint = told.rstrip("\n").splitlines()[-2:]
    assert message.startswith("wdsflow: ")
    assert str(path) in message
    assert hint.startswith("  ")
    assert "Traceback" not in told


FILES = {
    "report": ("validate", "SHARDS", "--output", "FILE"),
    "page": ("validate", "SHARDS", "--format", "html", "--output", "FILE"),
    "baseline": ("validate", "SHARDS", "--write-baseline", "FILE"),
    "list.txt": (
        "filter",
        "SHARDS",
        "-o",
        "OUT",
        "--where",
        "bytes > 0",
        "--jobs",
        0,
        "--export",
        "FILE",
    ),
    "list.parquet": (
        "filter",
        "SHARDS",
        "-o",
        "OUT",
        "--where",
        "bytes > 0",
        "--jobs",
        0,
        "--export",
        "FILE",
    ),
}


def words_of(name: str, shards: str, file: Path, out: Path) -> list[object]:
    return [
        {"SHARDS": shards, "FILE": file, "OUT": out}.get(str(word), word) for word in FILES[name]
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", FILES)
def test_on_a_full_disk_a_file_keeps_its_old_contents(name, shards, tmp_path: Path, capsys):
    file, out = tmp_path / name, tmp_path / "out"
    file.write_text(OLD)
    if name.startswith("list"):
        run(*FILES[name][:1], shards, "-o", out, "--where", "bytes > 0", "--jobs", 0)
    with full_disk(5000 if name.startswith("list") else 0):
        assert run(*words_of(name, shards, file, out)) == 2
    assert_named(capsys.readouterr().err, file)
    assert file.read_text() == OLD
    assert not list(tmp_path.rglob("*.tmp"))


FOLDERS = {
    "filter": ("--where", "bytes > 0", "--jobs", 0),
    "measure": ("--scores", "bytes", "--jobs", 0),
    "repair": (),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("command", "room"),
    [("filter", 0), ("filter", 5000), ("measure", 0), ("repair", 0), ("repair", 5000)],
)
def test_on_a_full_disk_no_half_file_has_its_final_name_and_the_same_command_resumes(
    command, room, shards, tmp_path: Path, capsys
):
    words = (command, shards, "-o", tmp_path / "out", *FOLDERS[command])
    with full_disk(room):
        assert run(*words) == 2
    assert_named(capsys.readouterr().err, tmp_path / "out")
    assert not [*tmp_path.rglob("*.tar"), *tmp_path.rglob("*.tmp")]
    assert run(*words) == 0


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", ["a folder", "no/such/folder/file", "a file/in it", "/sys/file"])
def test_a_place_where_no_file_can_be_is_refused_before_any_work(
    name, place, shards, tmp_path: Path, capsys
):
    if place == "/sys/file" and not sys.platform.startswith("linux"):
        pytest.skip("where root, too, may write no file")
    (tmp_path / "a file").write_text(OLD)
    file = tmp_path / f"{place}{Path(name).suffix}"
    if place == "a folder":
        file.mkdir()
    assert run(*words_of(name, shards, file, tmp_path / "out")) == 2
    told = capsys.readouterr().err
    assert str(file if place in ("a folder", "/sys/file") else file.parent) in told
    assert "Traceback" not in told
    assert not (tmp_path / "out").exists()


@pytest.mark.sample(1)
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs /proc, where root may make no file either"
)
@pytest.mark.parametrize(
    "words",
    [
        ("validate", "SHARDS", "--output", "/proc/x"),
        (
            "validate",
            "--write-baseline",
            "/proc/x",
            "--",
            "--train-data",
            "SHARDS/0.tar",
            "--workers",
            1,
        ),
        ("filter", "SHARDS", "-o", "/sys/x", "--where", "bytes > 0", "--jobs", 0),
        (
            "filter",
            "SHARDS",
            "-o",
            "out",
            "--where",
            "bytes > 0",
            "--jobs",
            0,
            "--export",
            "/proc/list.txt",
        ),
        ("repair", "SHARDS", "-o", "/proc/x"),
    ],
)
def test_the_command_that_is_printed_writes_elsewhere(
    words, shards, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert run(*(str(word).replace("SHARDS", shards) for word in words)) == 2
    assert not [*tmp_path.iterdir()]
    *_, hint = capsys.readouterr().err.splitlines()
    name, *rest = shlex.split(hint.removeprefix("  elsewhere: "))
    assert name == "wdsflow"
    assert run(*rest) != 2
    assert [*tmp_path.iterdir()]


@pytest.mark.parametrize("command", FOLDERS)
@pytest.mark.parametrize("place", ["a file", "a file/in it", "/sys/folder"])
def test_a_place_where_no_folder_can_be_is_refused(command, place, shards, tmp_path: Path, capsys):
    if place.startswith("/sys") and not sys.platform.startswith("linux"):
        pytest.skip("where root, too, may make no folder")
    (tmp_path / "a file").write_text(OLD)
    out = tmp_path / place
    assert run(command, shards, "-o", out, *FOLDERS[command]) == 2
    told = capsys.readouterr().err
    assert str(out) in told
    assert "Traceback" not in told
    assert (tmp_path / "a file").read_text() == OLD


@pytest.mark.parametrize(
    ("own", "openclip"),
    [
        (("--metrics", "FOLDER/none/a.prom"), ()),
        (("--metrics", "FOLDER/a.prom"), ()),
        ((), ("--logs", "FOLDER/a file")),
    ],
)
def test_training_refuses_places_where_it_could_not_write_before_it_begins(
    own, openclip, shards, tmp_path: Path, capsys
):
    pytest.importorskip("open_clip_train")
    (tmp_path / "a file").write_text(OLD)
    (tmp_path / "a.prom").mkdir()
    words = [
        word.replace("FOLDER", str(tmp_path))
        for word in (*own, "--", "--train-data", f"{shards}/0.tar", *openclip)
    ]
    assert run("train", *words) == 2
    told = capsys.readouterr().err
    assert str(tmp_path) in told
    assert "Traceback" not in told


def test_a_file_in_shared_memory_is_a_file_and_what_standard_output_leads_to_is_not() -> None:
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.NamedTemporaryFile(dir=memory) as file:
        assert not is_device(Path(file.name))
    assert is_device(Path("/dev/stdout"))
