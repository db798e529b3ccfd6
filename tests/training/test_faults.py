"""Faults of the feed: each ends the run by itself, names the sample, and leaves nothing behind."""

import errno
import faulthandler
import json
import multiprocessing
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

import numpy as np
import torch

from tests.processes import await_end, living_children
from tests.training.shards import arguments, jpeg, plain, samples, texts, write_shards, write_tar
from tests.training.test_loader import TRAIN, digest, loader
from wdsflow import FeedOptions
from wdsflow.cli.main import main
from wdsflow.training import StallError, get_wds_dataset
from wdsflow.training.feed_options import DecoderError, FeedStopped, SampleError
from wdsflow.training.launch.preflight_timeout import _ProcessActivity
from wdsflow.training.pixels.result_faults import fault_of
from wdsflow.training.stalls import watchdog
from wdsflow.training.stalls.field_fixes import process_count_name
from wdsflow.training.workers import decoder_position
from wdsflow.training.workers.decoder_deaths import Death, death_message

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="does not fork"
)
MARKED = (41, 33)  # the size of the image at which it happens
NAMED = r"at sample 'the \"marked\" one' of .*/0001\.tar"


@dataclass(frozen=True)
class Transform:
    """A transform of its own, which does something at the marked image."""

    act: Callable[[], object]

    def __call__(self, image):
        return self.act() if image.size == MARKED else plain(image)


def shards(folder):
    """Write two shards, the second one with the marked image in its midst."""
    write_tar(folder / "0000.tar", samples(0, 12))
    marked = [('the "marked" one.jpg', jpeg(5, MARKED)), ('the "marked" one.txt', b"marked")]
    write_tar(folder / "0001.tar", [*samples(1, 6), *marked, *samples(2, 6)])
    return f"{folder}/{{0000..0001}}.tar"


@contextmanager
def ended(error: type[FeedStopped], pattern: str):
    """Expect the end of a run, after which no process is left."""
    before = living_children()
    with pytest.raises(error, match=pattern) as caught:
        yield caught
    assert living_children(before) == []


def run(loading):
    try:
        return [text for batch in loading for text in texts(batch)]
    finally:
        loading.close()


def end_by(number):
    faulthandler.disable()  # pytest's would print all stacks
    os.kill(os.getpid(), number)


def hang():
    threading.Event().wait()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("act", "said"),
    [
        (
            lambda: end_by(signal.SIGKILL),
            r"was ended by SIGKILL, {at}.*memory runs out: .* are free now",
        ),
        (lambda: end_by(signal.SIGSEGV), r"was ended by SIGSEGV, {at}.*A library has crashed"),
        (
            lambda: end_by(signal.SIGBUS),
            r"was ended by SIGBUS, {at}.*/dev/shm has .* free.*--shm-size",
        ),
        (lambda: os._exit(3), r"ended by itself with exit status 3, {at}.*called exit"),
    ],
    ids=["killed", "crashed", "without-shared-memory", "exits"],
)
def test_a_process_that_ends_is_named_with_its_sample(tmp_path, act, said):
    data = shards(tmp_path)
    with ended(
        DecoderError, f"(?s)^rank 0: decoder [01] \\(process \\d+\\) {said.format(at=NAMED)}"
    ):
        run(loader(data, preprocess=Transform(act)))


@pytest.mark.deep
def test_the_command_that_a_message_prints_leaves_the_sample_out(tmp_path, monkeypatch, capsys):
    data = shards(tmp_path)
    with ended(DecoderError, NAMED) as caught:
        run(loader(data, preprocess=Transform(lambda: os._exit(1))))
    [line] = [line for line in str(caught.value).splitlines() if "wdsflow filter" in line]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exited:
        main(shlex.split(line[line.index("wdsflow ") :])[1:])
    assert exited.value.code == 0, capsys.readouterr()
    found = run(
        loader(
            f"{tmp_path}/0000.tar::{tmp_path}/without/0001.tar",
            preprocess=Transform(lambda: os._exit(1)),
        )
    )
    assert len(set(found)) == 24


def shared_memory():
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("act", "said"),
    [
        (
            lambda: 1 / 0,
            r"failed {at}: it raised ZeroDivisionError: division by zero\n  in <lambda> \(.*test_faults\.py",
        ),
        (lambda: [].index(1), r"failed {at}: it raised ValueError: 1 is not in list"),
        (lambda: exec("raise SystemExit(3)"), r"failed {at}: it raised SystemExit: 3"),
        (lambda: None, r"failed {at}: it returned None"),
        (
            lambda: torch.full((3, 8, 8), torch.nan),
            r"failed {at}: it returned numbers that are NaN",
        ),
        (
            lambda: torch.zeros(3, 8, 9),
            r"shapes that make no batch: .*\[3, 8, 9\].*\[3, 8, 8\]|\[3, 8, 8\].*\[3, 8, 9\]",
        ),
        (shared_memory, r"failed {at}: it raised OSError.*/dev/shm has .* free; .*--shm-size"),
        (threading.Lock, r"cannot be sent to the training process: cannot pickle '_thread.lock'"),
    ],
    ids=["raises", "raises-another", "exits", "none", "nan", "shape", "disk-full", "lock"],
)
def test_a_transform_that_fails_is_named_with_its_sample(tmp_path, act, said):
    data = shards(tmp_path)
    with ended(SampleError, f"(?s)^rank 0: .*{said.format(at=NAMED)}") as caught:
        run(loader(data, preprocess=Transform(act)))
    assert not re.search(r"^  in .*/wdsflow/", str(caught.value), re.MULTILINE), (
        "functions of the user alone"
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (lambda image: None, r"returned None\nIt does .*A function without return returns None\."),
        (lambda image: plain(image) * torch.nan, r"returned numbers that are NaN\nIt does "),
        (lambda image: {"size": (1, float("nan"))}, r"returned numbers that are NaN\nIt does "),
        (
            lambda image: image.sise,
            r"raised AttributeError: .*\n  in <lambda> \(.*test_faults\.py.*\nIt does ",
        ),
    ],
    ids=["none", "nan", "number", "raises"],
)
def test_a_transform_that_fails_for_any_image_is_to_blame_and_no_sample(tmp_path, transform, said):
    with ended(
        SampleError, f"(?s)^rank 0: the image transform failed at sample .*: it {said}"
    ) as caught:
        run(loader(shards(tmp_path), preprocess=transform))
    assert "It does the same for a picture of noise: correct the code" in str(caught.value)
    assert "without this sample" not in str(caught.value)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_seen_wherever_they_are(wrong):
    word = "NaN" if np.isnan(wrong) else "infinite"
    wrongs = [
        wrong,
        np.float64(wrong),
        np.float32(wrong),
        np.array([1.0, wrong], np.float16),
        np.array([complex(0.0, wrong)]),
        torch.tensor([1.0, wrong]),
        torch.tensor([1.0, wrong], dtype=torch.bfloat16),
        torch.tensor([1.0, wrong], requires_grad=True),
    ]
    for each in wrongs:
        for result in (each, (1, [each]), {"image": torch.zeros(2), "more": {"at": each}}):
            assert fault_of(result) == f"returned numbers that are {word}", repr(result)


def test_other_results_of_a_transform_are_fine():
    sparse = torch.tensor([0.0, 1.0]).to_sparse()
    fine = [
        0.0,
        7,
        "text",
        b"",
        (),
        {},
        [None],
        np.zeros(3),
        np.array(["nan"]),
        torch.arange(3),
        sparse,
        object(),
    ]
    assert [fault_of(each) for each in [*fine, fine]] == [""] * (len(fine) + 1)
    assert fault_of(None) == "returned None"


@pytest.mark.parametrize("decode_in", ["processes", "threads"])
def test_a_tokenizer_that_hangs_is_named_with_its_sample_and_its_decoder(
    tmp_path, monkeypatch, decode_in
):
    # However slow this machine is, the stack is written.
    monkeypatch.setattr(decoder_position, "_PATIENCE", 600.0)

    def tokenizer(text):
        return hang() if text == "marked" else [text]

    args = arguments(train_data=shards(tmp_path), train_num_samples=60, workers=1, batch_size=4)
    options = FeedOptions(stall_after=4.0, status_every=0.0, decode_in=decode_in, decoders=2)
    loading = get_wds_dataset(args, TRAIN, True, tokenizer=tokenizer, options=options).dataloader
    who = r"decoder \d \(process \d+\)" if decode_in == "processes" else r"decoding thread \d"
    where = NAMED.replace("at sample", "at the tokens of sample")
    with ended(
        StallError,
        rf"(?s)no batch for \d+ s\.\n{who} has been {where} for \d+ s, in .*hang \(.*test_faults\.py",
    ):
        run(loading)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "act", [hang, lambda: os.kill(os.getpid(), signal.SIGSTOP)], ids=["hangs", "stopped"]
)
def test_a_process_that_hangs_is_named_with_its_sample_and_killed(tmp_path, act):
    how = "has been" if act is hang else "has been stopped by a signal"
    data = shards(tmp_path)
    with ended(
        StallError, rf"(?s)decoder \d \(process \d+\) {how} {NAMED} for \d+ s.*To fix it:"
    ) as caught:
        run(loader(data, preprocess=Transform(act), workers=1, stall_after=4.0))
    assert "wait longer" in str(caught.value) or act is not hang


@pytest.mark.deep
@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ({"decoders": 40}, r"start fewer: FeedOptions\(decoders=\d+, "),
        (
            {"decoders": 40, "argv": ("--workers", "1")},
            r"start fewer: wdsflow train --decoders \d+ .*-- --workers 1$",
        ),
        ({"workers": 40, "preprocess": plain}, r'start fewer than \d+: args\["workers"\]$'),
        (
            {"workers": 40, "preprocess": plain, "argv": ("--seed", "1")},
            r"start fewer than \d+: --workers$",
        ),
    ],
    ids=["own-loop", "command", "own-loop-custom-transform", "command-custom-transform"],
)
def test_processes_that_the_system_does_not_start_are_too_many(tmp_path, given, fix):
    """What is printed is what this user can change."""
    given = {"workers": 1, "decode_in": "processes", **given}
    loading = loader(write_shards(tmp_path, [1] * given["workers"]), **given)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, before[1]))
    said = r"^rank 0: decoder \d+ cannot be started: Too many open files\.\nTo fix it:\n"
    try:
        with ended(DecoderError, said) as caught:
            iter(loading)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        loading.close()
    assert re.search(fix, str(caught.value), re.MULTILINE)
    assert "ulimit -n" in str(caught.value)
    assert ("--" in str(caught.value)) == ("argv" in given)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("transform", "argv", "named"),
    [
        (TRAIN, (), "FeedOptions(decoders=...)"),
        (TRAIN, ("--seed", "1"), "--decoders"),
        (plain, (), 'args["workers"]'),
        (plain, ("--seed", "1"), "--workers"),
    ],
)
def test_fewer_processes_are_advised_as_the_user_sets_them(tmp_path, transform, argv, named):
    options = FeedOptions(argv=argv)
    recognised = transform is TRAIN
    assert process_count_name(options, recognised=recognised) == named
    death = Death(
        "decoder 1", -signal.SIGBUS, (), in_tokenizer=False, processes=2, recognised=recognised
    )
    assert f"or fewer processes: {named}" in death_message(death, options)
    killed = death_message(death._replace(code=-signal.SIGKILL), options)
    smaller = "--batch-size" if argv else 'args["batch_size"]'
    assert recognised or f"smaller batches ({smaller})" in killed

    def tokenizer(texts):
        shared_memory()

    args = arguments(
        train_data=write_shards(tmp_path, [8]), train_num_samples=8, workers=1, batch_size=4
    )
    options = FeedOptions(status_every=0.0, decode_in="threads", argv=argv)
    loading = get_wds_dataset(
        args, transform, True, tokenizer=tokenizer, options=options
    ).dataloader
    with pytest.raises(
        SampleError, match=re.escape(f"--shm-size=8g ..., or fewer processes: {named}")
    ):
        run(loading)


def test_samples_of_several_shards_are_named_each_with_its_own(tmp_path):
    def tokenizer(text):
        os.kill(os.getpid(), signal.SIGKILL)

    args = arguments(train_data=write_shards(tmp_path, [2] * 8), workers=1, batch_size=16)
    options = FeedOptions(status_every=0.0, decode_in="processes", decoders=1, schedule="balanced")
    loading = get_wds_dataset(args, TRAIN, True, tokenizer=tokenizer, options=options).dataloader
    with ended(DecoderError, "at the tokens of one of the samples") as caught:
        run(loading)
    named = re.findall(r"((?:'\d{7}',? ?)+) of \S*/0*(\d+)\.tar", str(caught.value).splitlines()[0])
    assert len(named) > 1
    assert all(
        int(key[:3]) == int(shard) for keys, shard in named for key in re.findall(r"\d{7}", keys)
    )


def remove(folder):
    for path in folder.glob("*.tar"):
        path.unlink()


@pytest.mark.sample(1)
@pytest.mark.parametrize("when", ["before", "while it is read", "between epochs"])
def test_a_shard_that_is_gone_is_missing_and_cannot_be_repaired(tmp_path, when):
    # More than are opened ahead.
    data = write_shards(tmp_path, [40] * (30 if when == "while it is read" else 2))
    loading = loader(data, decoders=1)
    if when == "between epochs":
        list(loading)
    running = iter(loading) if when == "while it is read" else None
    remove(tmp_path)
    with pytest.raises(StallError, match="bring the missing shards back") as caught:
        list(running or loading)
    loading.close()
    assert "repair" not in str(caught.value)
    assert "--schedule" not in str(caught.value)
    assert f"wdsflow validate '{data}'" in str(caught.value)


@pytest.fixture
def silent():
    """Return the url of a server that takes requests and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/0000.tar"


@pytest.mark.sample(1)
@pytest.mark.parametrize("counted", [False, True], ids=["read", "counted"])
@pytest.mark.parametrize("kind", ["pipe", "http"])
def test_a_shard_that_gives_nothing_is_named(silent, kind, counted):
    url = silent if kind == "http" else "pipe:sleep 600"
    args = arguments(
        train_data=url, train_num_samples=None if counted else 60, workers=1, batch_size=4
    )
    options = FeedOptions(stall_after=2.0, status_every=0.0, allow_pipe=True)
    command = (
        f"timeout 60 wdsflow inspect {shlex.quote(url)}{' --allow-pipe' if kind == 'pipe' else ''}"
    )
    said = rf"(?s){'cannot be counted' if counted else 'no batch for'}.*{re.escape(url)} has given nothing for .*{command}"
    with pytest.raises(StallError, match=said):
        run(get_wds_dataset(args, TRAIN, True, tokenizer=None, options=options).dataloader)


def test_a_command_that_fails_is_to_be_run_by_hand(tmp_path):
    with pytest.raises(
        StallError, match=r"(?s)ended with status 3.*sh -c 'exit 3' > /dev/null"
    ) as caught:
        run(loader("pipe:exit 3", workers=1))
    assert "repair" not in str(caught.value)


def compute(seconds):
    """Take the processor for some time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_a_preflight_is_idle_unless_something_is_read_or_computed(tmp_path):
    life = _ProcessActivity()
    assert not life.has_worked(1000.0)
    write_tar(tmp_path / "0.tar", [("a", bytes(1 << 20))]).read_bytes()
    assert life.has_worked(1000.0)
    computing = threading.Thread(target=compute, args=(0.1,))
    computing.start()
    computing.join()
    # A fifth of the time, and a tenth is enough; what this thread does is no work.
    assert life.has_worked(0.5)
    reading = "open('/dev/zero', 'rb').read(1 << 20); print(flush=True); input()"
    words = [sys.executable, "-S", "-c", "print(flush=True); input();" + reading]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        life.has_worked(0.0)
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        assert life.has_worked(1000.0)
        assert not life.has_worked(1000.0)
        child.communicate(b"\n")


def test_the_time_for_which_a_process_was_stopped_is_no_wait(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(
        watchdog, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=time.sleep)
    )
    dog = watchdog.Watchdog(60.0)
    with dog.waiting(lambda waited: StallError(f"after {waited:.0f} s")):
        for seconds in (4, 500, 4, 4, 24):
            clock[0] += seconds
            dog.check()
        clock[0] += 24
        with pytest.raises(StallError, match="after 60 s"):
            dog.check()


def batches(data):
    """Return what known and unknown transforms make of shards, in processes."""
    return [
        [digest(batch) for batch in loader(data, preprocess=each, decode_in="processes")]
        for each in (TRAIN, plain)
    ]


_WITHOUT_SHARED_MEMORY = """
import json, multiprocessing, os, signal, sys, threading
from tests.training.test_faults import TRAIN, SampleError, batches, loader, plain
data = sys.argv[1]
print(json.dumps(batches(data)))
multiprocessing.set_start_method("spawn")
print(json.dumps(batches(data)))
try:
    next(iter(loader(data, preprocess=lambda image: plain(image))))
except SampleError as error:
    print(str(error).splitlines()[-1])
multiprocessing.set_start_method("fork", force=True)
hanging = loader(data, decode_in="threads")
hanging._feed._tokens[0]._contract = lambda texts: threading.Event().wait()
running = [iter(loader(data, preprocess=each)) for each in (TRAIN, plain)] + [iter(hanging)]
for each in running[:2]:
    next(each)
for child in multiprocessing.active_children():
    os.kill(child.pid, signal.SIGSTOP)
    print(child.pid)
sys.stdout.flush()
raise ZeroDivisionError("the user's own")
"""
_FULL = 'mount -t tmpfs -o size=64k tmpfs /dev/shm && { head -c 64k /dev/zero > /dev/shm/full; exec "$@"; }'


@pytest.mark.deep
def test_nothing_needs_shared_memory_and_no_stopped_process_or_hanging_thread_keeps_a_program_from_its_end(
    tmp_path,
):
    isolated = ["unshare", "-rm", "sh", "-c", _FULL, "sh"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*isolated, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("/dev/shm cannot be replaced here: this needs Linux and its user namespaces")
    # The folder for temporary files may be in the shared memory.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        data = write_shards(Path(folder), [20, 20])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": folder}
        program = [*isolated, sys.executable, "-c", _WITHOUT_SHARED_MEMORY, data]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
        expected = batches(data)
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: the user's own"
    forked, spawned, hint, *pids = done.stdout.splitlines()
    assert json.loads(forked) == json.loads(spawned) == expected
    assert hint == "Define it at the top level of a module, not inside of a function."
    assert len(pids) == 4
    await_end(*map(int, pids))


def test_a_page_in_place_of_a_shard_is_damaged_and_not_called_cut(tmp_path):
    (tmp_path / "0.tar").write_text("<html><body>404</body></html>")
    with pytest.raises(StallError, match=r"Damaged: \S+0\.tar, not a tar: looks like HTML page"):
        run(loader(str(tmp_path / "0.tar"), workers=1))
