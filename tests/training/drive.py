"""Runs `wdsflow train` on tiny models, some of which die during the run.

It is a program, so that its processes share one import of torch.

    python drive.py < scenarios > statuses

Each line in is a list of scenarios. Each scenario: "words" behind `wdsflow train`, "name" of the
files for a line a batch and for what is said, "signal" with which the process ends itself after the
batch "at", or with "decoders_of" a rank the decoders of that rank; "ranks" how many processes
train, as srun starts them, or torchrun ("launcher"): where one fails, the others must end by
themselves. Under torchrun the captions of each batch are written down, too. They run one after the
other; the exit statuses of each are printed.
"""

import hashlib
import importlib
import json
import os
import socket
import sys

import psutil


class Recorded:
    """A loader that writes down what it gives."""

    def __init__(self, loader, path, scenario):
        self.loader, self.path = loader, path
        self.signal, self.at, self.given = scenario.get("signal", 0), scenario.get("at", 0), 0
        self.decoders_of = scenario.get("decoders_of")
        self.captions = scenario.get("launcher") == "torchrun"

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def __iter__(self):
        for batch in self.loader:
            self.given += 1
            parts = batch.values() if isinstance(batch, dict) else batch  # of OpenCLIP 4, of 3
            digest = hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()
            with open(self.path, "a") as file:
                file.write(f"{digest}\n")
            if self.captions:
                with open(f"{self.path}.captions", "a") as file:
                    file.write(f"{json.dumps(batch[1].tolist())}\n")
            yield batch
            if self.given == self.at:
                self.end()

    def end(self):
        if self.decoders_of is None:
            os.kill(os.getpid(), self.signal)
        elif self.decoders_of == int(os.environ.get("SLURM_PROCID", "0")):
            for child in psutil.Process().children():
                child.send_signal(self.signal)


def train(scenario):
    from wdsflow.cli.main import main as wdsflow

    feed = importlib.import_module("wdsflow.training.openclip")
    path = f"{scenario['name']}.{os.environ.get('SLURM_PROCID', os.environ.get('RANK', '0'))}"
    said = os.open(f"{path}.said", os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    get_data = feed.get_data

    def recording(*words, **named):
        data = get_data(*words, **named)
        data["train"].dataloader = Recorded(data["train"].dataloader, path, scenario)
        return data

    vars(feed)["get_data"] = recording
    try:
        wdsflow(["train", *scenario["words"]])
    except SystemExit as end:
        # Python would end now: a process group may wait there for ranks that have ended.
        sys.stdout.write("ends as Python does\n")
        sys.stdout.flush()
        return int(end.code or 0)


def train_on_processors(models):
    """Let OpenCLIP train on several ranks without devices.

    OpenCLIP names devices even there. The models that it trains are appended to ``models``.
    """
    parallel = importlib.import_module("torch.nn.parallel")
    real = parallel.DistributedDataParallel

    def without_devices(module, device_ids=None, **named):
        models.append(module)
        return real(module, **named)

    vars(parallel)["DistributedDataParallel"] = without_devices


def join(rank, ranks, port, launcher):
    """Be a rank among others, as srun or torchrun starts it."""
    train_on_processors([])
    if launcher == "torchrun":
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        os.environ |= {"LOCAL_WORLD_SIZE": str(ranks), "TORCHELASTIC_RUN_ID": "none"}
    else:
        os.environ |= {
            "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(rank),
            "SLURM_NTASKS": str(ranks),
        }
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def fork(scenario, rank, ranks, port):
    child = os.fork()
    if child:
        return child
    importlib.import_module("torch").set_num_threads(1)
    if ranks > 1:
        join(rank, ranks, port, scenario.get("launcher"))
    status = train(scenario)
    if "signal" in scenario and "decoders_of" not in scenario:
        sys.exit(status)  # the interpreter ends as in a process of its own
    sys.stderr.flush()
    os._exit(status)


def wait(children):
    statuses = {}
    while len(statuses) < len(children):
        child, status = os.waitpid(-1, 0)
        statuses[child] = os.waitstatus_to_exitcode(status)
    return [statuses[child] for child in children]


def main():
    for name in (
        "open_clip_train.main",
        "wdsflow.training.openclip",
        "wdsflow.training.launch.resume",
    ):
        importlib.import_module(name)
    for line in sys.stdin:
        for scenario in json.loads(line):
            ranks = scenario.get("ranks", 1)
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            children = [fork(scenario, rank, ranks, port) for rank in range(ranks)]
            sys.stdout.write(f"{' '.join(map(str, wait(children)))}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
