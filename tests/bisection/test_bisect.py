"""``wdsflow bisect`` with real commands, that fail, hang, and fail in other ways."""

import gzip
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.shards import write
from tests.printed.pasted import commands, paste, run

READ = """
import os, sys, tarfile, time
from braceexpand import braceexpand
for path in braceexpand(sys.argv[1]):
    for member in (tar := tarfile.open(path)):
        data = tar.extractfile(member).read()
"""
FAILS = f"{READ}        if data == b'bad': raise ValueError(f'no token for {{member.name}} at {{id(data):#x}}')\n"
HANGS = f"{READ}        if data == b'bad': time.sleep(1000)\n"
DIES = f"{READ}        if data == b'bad': os.kill(os.getpid(), 9)\n"
SAYS = f"{READ}        if data == b'bad': print('loss is nan' + ' ' * 100_000)\n"
OTHER = f"""{READ}
        if data == b'bad': raise ValueError('no token')
if len(list(braceexpand(sys.argv[1]))) < 3: raise AssertionError('more workers than shards')
"""
PAIRS = f"""
found = set()
{READ}        found.add(data)
if {{b'bad', b'worse'}} <= found: sys.exit(7)
"""


@pytest.fixture
def folder(tmp_path):
    for shard in range(4):
        members = {}
        for sample in range(10):
            text = {(2, 7): b"bad", (0, 3): b"worse"}.get((shard, sample), b"fine")
            members |= {f"{shard}{sample}.jpg": b"\xff\xd8", f"{shard}{sample}.txt": text}
        write(tmp_path / f"{shard}.tar", members)
    return tmp_path


def bisect(folder, program, *options, urls="{0..3}.tar"):
    (folder / "train.py").write_text(program)
    return run(["bisect", urls, *options, "--", sys.executable, "train.py", "{shards}"], folder)


def members(path):
    with tarfile.open(path) as tar:
        return [(member.name, tar.extractfile(member).read()) for member in tar]


@pytest.mark.parametrize(
    ("program", "options", "how"),
    [
        pytest.param(FAILS, (), "fails with status 1, ValueError: no token for 27.txt", id="fails"),
        pytest.param(DIES, (), "fails with SIGKILL", id="dies", marks=pytest.mark.deep),
        pytest.param(HANGS, ("--hang-after", "2"), "hangs", id="hangs", marks=pytest.mark.deep),
        pytest.param(SAYS, ("--match", "loss is nan"), "prints 'loss is nan'", id="prints", marks=pytest.mark.deep),
    ],
)
def test_the_sample_at_fault_is_all_that_is_left_and_the_printed_commands_work(folder, program, options, how):
    urls = "2.tar" if program is HANGS else "{0..3}.tar"  # each run that hangs takes two seconds
    done = bisect(folder, program, *options, urls=urls)
    assert done.status == 0, done.errors
    assert how in done.out
    assert members(folder / "smallest" / "000000.tar") == [("27.jpg", b"\xff\xd8"), ("27.txt", b"bad")]
    assert os.listdir(folder / "smallest") == ["000000.tar"]
    inspect = next(each for each in commands(done.out) if " inspect " in each)
    assert "27" in paste(inspect, folder).out
    if program is FAILS:
        again = subprocess.run(
            done.out.splitlines()[-1], check=False, shell=True, cwd=folder, capture_output=True, text=True
        )
        assert again.stderr.splitlines()[-1].startswith("ValueError: no token for 27.txt")


@pytest.mark.parametrize(
    ("reaction", "options", "how"),
    [
        ("os.kill(os.getpid(), 9)", (), "fails with SIGKILL"),
        ("print('loss is nan' + ' ' * 100_000)", ("--match", "loss is nan"), "prints 'loss is nan'"),
    ],
    ids=["killed", "prints"],
)
def test_what_counts_as_a_failure_is_found_in_a_program_that_starts_quickly(tmp_path, reaction, options, how):
    for shard, text in enumerate([b"fine", b"bad"]):
        write(tmp_path / f"{shard}.tar", {f"{shard}0.txt": b"fine", f"{shard}1.txt": text})
    (tmp_path / "train.py").write_text(
        "import glob, os, sys\n"
        "for path in glob.glob(sys.argv[1] + '/*.tar'):\n"
        f"    if b'bad' in open(path, 'rb').read(): {reaction}\n"
    )
    words = ["bisect", "{0..1}.tar", *options, "--", sys.executable, "-S", "-E", "train.py", "{folder}"]
    done = run(words, tmp_path)
    assert done.status == 0, done.errors
    assert how in done.out
    assert members(tmp_path / "smallest" / "000000.tar") == [("11.txt", b"bad")]


def test_a_set_that_fails_in_another_way_is_not_taken_for_a_smaller_one(tmp_path):
    """With a program that starts quickly, because the search runs it many times."""
    for shard, texts in enumerate([(b"fine", b"fine"), (b"fine", b"bad"), (b"fine",)]):
        write(tmp_path / f"{shard}.tar", {f"{shard}{at}.txt": text for at, text in enumerate(texts)})
    (tmp_path / "train.py").write_text(
        "import glob, sys\npaths = glob.glob(sys.argv[1] + '/*.tar')\n"
        "if any(b'bad' in open(path, 'rb').read() for path in paths): raise ValueError('no token')\n"
        "if len(paths) < 3: raise AssertionError('more workers than shards')\n"
    )
    done = run(["bisect", "{0..2}.tar", "--", sys.executable, "-S", "-E", "train.py", "{folder}"], tmp_path)
    assert done.status == 0, done.errors
    (left,) = (tmp_path / "smallest").iterdir()
    assert members(left) == [("11.txt", b"bad")]
    assert done.out.splitlines() == [
        "smallest/000000.tar: 1 sample of 2 (11) of 1.tar",
        "with 1 shard of 3 the command fails with status 1, ValueError: no token; 8 runs",
        "",
        "What to do",
        "  1. see the samples",
        "       wdsflow inspect smallest --keys 20",
        "  2. run the command with them",
        f"       {sys.executable} -S -E train.py smallest",
    ]
    good, other = "ValueError: no token", "AssertionError: more workers than shards"
    assert [line.rpartition(" (")[0] for line in done.errors.splitlines() if line.startswith("run ")] == [
        f"run 1: 3 shards, 5 samples: fails with status 1, {good}",
        f"run 2: 1 shard, 2 samples: fails with status 1, {other}",
        f"run 3: 2 shards, 3 samples: fails with status 1, {good}",
        f"run 4: 1 shard, 2 samples: fails with status 1, {good}",
        f"run 5: 1 shard, 2 samples: fails with status 1, {good}",
        f"run 6: 1 shard, 1 sample: fails with status 1, {other}",
        f"run 7: 1 shard, 1 sample: fails with status 1, {good}",
        f"run 8: 1 shard, 1 sample: fails with status 1, {good}",
    ]
    shown = [line for line in done.errors.splitlines() if line.startswith("  ")]
    assert (len(shown), shown[-1]) == (5, f"  {good}")


@pytest.mark.deep
def test_another_failure_of_fewer_shards_is_not_taken_for_it(folder):
    done = bisect(folder, OTHER)
    assert done.status == 0, done.errors
    left = sorted((folder / "smallest").iterdir())
    assert [member for path in left for member in members(path)] == [("27.jpg", b"\xff\xd8"), ("27.txt", b"bad")]
    assert "AssertionError" in done.errors


@pytest.mark.deep
def test_samples_that_fail_only_together_are_both_left_each_in_its_shard(folder):
    done = bisect(folder, PAIRS)
    assert done.status == 0, done.errors
    left = [members(path) for path in sorted((folder / "smallest").iterdir())]
    assert [[name for name, _ in each] for each in left] == [["03.jpg", "03.txt"], ["27.jpg", "27.txt"]]
    assert "{000000..000001}.tar" in done.out.splitlines()[-1]


def test_a_shard_whose_archive_is_at_fault_stays_as_it_is(folder):
    data = (folder / "1.tar").read_bytes()
    (folder / "1.tar").write_bytes(data[: 9 * 512 + 100])  # cut within a member
    done = bisect(folder, READ)
    assert done.status == 0, done.errors
    assert "ReadError: unexpected end of data" in done.out
    assert "byte for byte as" in done.out
    assert (folder / "smallest" / "000000.tar").read_bytes() == (folder / "1.tar").read_bytes()


def test_a_command_that_fails_is_not_taken_for_one_that_may_hang(folder):
    done = bisect(folder, "import sys; sys.exit(3)")
    assert done.status == 1
    assert "failed in the same way" in done.errors
    assert "hang" not in done.errors


def test_a_command_that_passes_is_no_success_and_leaves_nothing(folder):
    done = bisect(folder, READ)
    assert done.status == 1
    assert "the command passes with 4 shards: look for a hang with --hang-after" in done.errors
    assert "if it hangs: wdsflow bisect" in done.errors
    assert not (folder / "smallest").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["0.tar", "--", "true"], "where it takes the shards"),
        (["0.tar"], "name a command after --"),
        (["none.tar", "--", "false", "{shards}"], "none.tar"),
        (["0.tar", "--", "./no-such-program", "{shards}"], "there is no program ./no-such-program"),
        (["0.tar", "--", "./0.tar", "{shards}"], "may not be run"),
        (["0.tar", "--match", "", "--", "true", "{shards}"], "--match needs a text"),
        (["0.tar", "-o", "a{b,c}", "--", "false", "{shards}"], "would be a pattern"),
        (["0.tar", "-o", "full", "--", "false", "{shards}"], "full exists already"),
        (["0.tar", "-o", "0.tar/new", "--", "false", "{shards}"], "cannot write"),
    ],
)
def test_wrong_use_is_one_message_and_status_2(folder, words, said):
    (folder / "full").mkdir()
    (folder / "full" / "file").touch()
    done = run(["bisect", *words], folder)
    assert done.status == 2
    assert said in done.errors
    assert "Traceback" not in done.errors


def test_a_compressed_shard_is_unpacked_and_placeholders_are_filled_in(folder):
    (folder / "2.tar.gz").write_bytes(gzip.compress((folder / "2.tar").read_bytes()))
    program = f"import os, sys\nprint(sys.argv[2], os.listdir(sys.argv[3]))\n{FAILS}"
    (folder / "train.py").write_text(program)
    words = ["bisect", "2.tar.gz", "--", sys.executable, "train.py", "{shards}", "{samples}", "{run}"]
    done = run(words, folder)
    assert done.status == 0, done.errors
    assert members(folder / "smallest" / "000000.tar")[1] == ("27.txt", b"bad")
    assert done.out.splitlines()[-1].endswith('train.py smallest/000000.tar 1 "$(mktemp -d)"')


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tar", "tf", "{shards}"], "takes no range in braces"),
        ([sys.executable, "no-such-file.py", "{shards}"], "the command may fail whatever the shards hold"),
        ([sys.executable, "-c", "import sys; open(sys.argv[1])", "{shards}"], "takes no range in braces"),
    ],
)
def test_a_command_that_fails_whatever_the_shards_hold_is_no_find(folder, words, said):
    (folder / "mine").mkdir()
    done = run(["bisect", "{0..3}.tar", "-o", "mine", "--", *words], folder)
    assert done.status == 1
    assert said in done.errors
    assert list((folder / "mine").iterdir()) == []


def test_a_folder_serves_programs_that_take_no_braces_and_braces_in_a_path_do_no_harm(folder):
    place = folder / "a {b,c} d"
    place.mkdir()
    for number in range(4):
        (folder / f"{number}.tar").rename(place / f"{number}.tar")
    (place / "train.py").write_text(
        FAILS.replace("braceexpand(sys.argv[1])", "sorted(__import__('glob').glob(sys.argv[1]))")
    )
    words = ["bisect", *(f"{number}.tar" for number in range(4)), "--", sys.executable, "train.py", "{folder}/*.tar"]
    done = run(words, place)
    assert done.status == 0, done.errors
    assert members(place / "smallest" / "000000.tar")[1] == ("27.txt", b"bad")


@pytest.mark.deep
def test_no_run_outlives_a_search_that_is_killed_and_the_next_one_begins_anew(folder):
    (folder / "train.py").write_text(
        "import os, sys, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    words = [sys.executable, "-m", "wdsflow", "bisect", "0.tar", "--", sys.executable, "train.py", "{shards}"]
    search = subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL)
    while not ((folder / "pid").exists() and (folder / "pid").read_text()):
        time.sleep(0.05)
    number = int((folder / "pid").read_text())
    search.kill()
    search.wait()
    while psutil.pid_exists(number) and psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.05)
    assert bisect(folder, FAILS).status == 0


@pytest.mark.deep
@pytest.mark.timeout(7200)  # about thirty trainings
def test_one_sample_of_twenty_thousand_that_ends_a_real_training_is_found(tmp_path: Path) -> None:
    pytest.importorskip("open_clip_train")
    from tests.bisection.training import command, write_shards

    bad = write_shards(tmp_path, number=20, samples=1000)
    done = run(["bisect", f"{tmp_path}/{{00000..00019}}.tar", "--", *command(tmp_path)], tmp_path)
    assert done.status == 0, done.errors[-3000:]
    assert [name for name, _ in members(tmp_path / "smallest" / "000000.tar")] == [
        f"{bad}.jpg",
        f"{bad}.txt",
        f"{bad}.pickle",
    ]
