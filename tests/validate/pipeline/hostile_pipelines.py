"""Pipelines that do what no pipeline should."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, os.path.dirname(__file__))
from small_pipelines import read  # type: ignore[import-not-found]  # next to this file


def sleeps(urls):
    for sample in read(urls):
        time.sleep(3600)
        yield sample


def spins(urls):
    for sample in read(urls):
        while sample:
            pass
        yield sample


def hangs_while_built(urls):
    time.sleep(3600)


def prints(urls):
    for sample in read(urls):
        sys.stdout.write("x" * 100_000)
        os.write(1, b"\0\1\2")
        yield sample


def exits(urls):
    for _ in read(urls):
        sys.exit(3)
        yield


def dies(urls):
    for _ in read(urls):
        os._exit(5)
        yield


def forks(urls):
    for sample in read(urls):
        if os.fork() == 0:
            time.sleep(3600)
            os._exit(0)
        yield sample


def leaves_home(urls):
    for sample in read(urls):
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
            os._exit(0)
        yield sample


def needs_a_gpu(urls):
    raise RuntimeError("Found no NVIDIA driver on your system")


def eats_memory(urls):
    kept = []
    for _ in read(urls):
        while True:
            kept.append(bytes(50_000_000))
        yield


def dies_at_five(urls):
    """Like a decoder in C that crashes at some bytes."""
    import webdataset as wds

    def decode(sample):
        if sample["__key__"].endswith("5"):
            ctypes.string_at(0)
        return sample

    return wds.WebDataset(urls, shardshuffle=False).map(decode, handler=wds.ignore_and_continue)


def on_a_gpu(urls):
    for sample in read(urls):
        raise RuntimeError("Found no NVIDIA driver on your system")
        yield sample


def asserts_a_gpu(urls):
    import webdataset as wds

    def embed(sample):
        import torch

        assert torch.cuda.is_available()
        return sample

    return wds.WebDataset(urls, shardshuffle=False).map(embed, handler=wds.ignore_and_continue)


def short_of_memory(urls):
    for sample in read(urls):
        if sample["key"].endswith("3"):
            raise MemoryError
        yield sample


def dies_while_built(urls):
    os._exit(5)


def ignores_signals(urls):
    import signal
    import threading

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=time.sleep, args=(3600,)).start()
    yield from read(urls)


def program_without_memory(urls):
    """Runs a program that gets no memory, as a decoder of videos may."""
    for sample in read(urls):
        subprocess.run([sys.executable, "-c", "bytes(10**15)"], check=True, capture_output=True)
        yield sample


def killed_by_the_system(urls):
    """Dies as if the system killed the process for lack of memory.

    A file next to the shards counts such kills.
    """
    for _ in read(urls):
        Path(urls[0]).with_name("memory.events").write_text("low 0\noom_kill 8\n")
        os.kill(os.getpid(), signal.SIGKILL)
        yield


class Stuck:
    """Hangs at one item, in C code that holds Python's lock."""

    def __init__(self, urls):
        self.items = list(read(urls))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        if index == 5:
            re.match("(a+)+$", "a" * 60 + "b")
        return self.items[index]
