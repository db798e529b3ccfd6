"""Compares predictions with real readers on generated shard sets, and reports differences."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.conformance.generate import ShardSet, make_set
from tests.conformance.indexed import clear, folder_of, write_index
from tests.conformance.predict import Prediction, predict, scan_all
from tests.programs import Program
from wdsflow.readers import READERS, Options, Reader, scan_options
from wdsflow.shards.source.base import single_shard

_SCRIPT = Path(__file__).with_name("readers.py")


@dataclass(frozen=True, slots=True)
class Environment:
    """How to run a real reader.

    Holds the reader's name, its Python, and the folders that come first on its path.
    """

    reader: str
    program: str
    python: str = sys.executable
    path: tuple[str, ...] = ()
    missing: str = ""  # why it cannot be run here
    starts_more: bool = False  # processes of its own, which take time as long as they live

    @property
    def place(self) -> Hashable:
        """What readers that run in one process have in common."""
        return self.python, self.path, self.reader if self.starts_more else ""


def environments(variables: Mapping[str, str]) -> list[Environment]:
    """Return how each reader is run here, by the variables that say where those not installed lie.

    ``WDSFLOW_WEBDATASET1`` is a folder with webdataset 1.x, ``WDSFLOW_OPEN_CLIP_HEAD`` one with the
    sources of open_clip's main branch, ``WDSFLOW_RAY_PYTHON`` a Python with ray where this one has
    none, ``WDSFLOW_INDEX_READERS`` one with Energon.
    """
    webdataset = variables.get("WDSFLOW_WEBDATASET1", "")
    head = variables.get("WDSFLOW_OPEN_CLIP_HEAD", "")
    ray = variables.get("WDSFLOW_RAY_PYTHON", "")
    indexed = variables.get("WDSFLOW_INDEX_READERS", "")
    without_ray = "" if ray else _lacks("ray")
    return [
        Environment("open-clip-3.3", "open-clip", missing=_lacks("open_clip_train")),
        Environment(
            "webdataset-1",
            "webdataset",
            path=(webdataset,),
            missing=_unset("WDSFLOW_WEBDATASET1", webdataset),
        ),
        Environment("datasets", "datasets", missing=_lacks("datasets")),
        Environment("datasets-tables", "datasets-tables", missing=_lacks("datasets")),
        Environment(
            "open-clip-4",
            "open-clip",
            path=(head,),
            missing=_unset("WDSFLOW_OPEN_CLIP_HEAD", head) or _lacks("open_clip_train"),
        ),
        Environment(
            "ray-data",
            "ray-data",
            python=ray or sys.executable,
            missing=without_ray,
            starts_more=True,
        ),
        Environment("webdataset-0.2", "webdataset", missing=_lacks("webdataset")),
        Environment("timm", "timm", missing=_lacks("timm")),
        Environment(
            "energon", "energon", python=indexed, missing=_lacks_there(indexed, "megatron.energon")
        ),
        Environment(
            "energon-crude",
            "energon-crude",
            python=indexed,
            missing=_lacks_there(indexed, "megatron.energon"),
        ),
    ]


def _unset(variable: str, value: str) -> str:
    return "" if value else f"{variable} is not set"


def _lacks(module: str) -> str:
    from importlib.util import find_spec

    return "" if find_spec(module) else f"{module} is not installed"


def _lacks_there(python: str, module: str) -> str:
    if not python:
        return _unset("WDSFLOW_INDEX_READERS", python)
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    found = (
        subprocess.run([python, "-c", look], check=False, stderr=subprocess.DEVNULL).returncode == 0
    )
    return (
        ""
        if found
        else f"{module} is not installed; WDSFLOW_INDEX_READERS names a Python that has it"
    )


class RealReaders:
    """Processes in which readers run, one for each environment.

    Readers in the same environment share a process, so that common imports happen once.
    """

    def __init__(self, environments: Iterable[Environment], scratch: Path) -> None:
        self._programs: dict[Hashable, Program] = {}
        self._scratch = scratch
        for each in environments:
            if not each.missing:
                self._start(each)

    def _start(self, environment: Environment) -> None:
        variables = {
            "PYTHONSAFEPATH": "1",
            "HF_HOME": str(self._scratch / "hf"),
            "HF_HUB_OFFLINE": "1",
        }
        if environment.place not in self._programs:
            self._programs[environment.place] = Program(
                _SCRIPT, self._scratch, variables, environment.python, environment.path
            )

    @contextmanager
    def open(self, environment: Environment) -> "Iterator[RealReader]":
        """Give a reader; one that starts processes ends with the block."""
        self._start(environment)  # one that has ended
        yield RealReader(environment.program, self._programs[environment.place])
        if environment.starts_more:
            self._programs.pop(environment.place).close()

    def close(self) -> None:
        """End the processes."""
        for each in self._programs.values():
            each.close()


class RealReader:
    """A reader in another process, which reads one shard set after another."""

    def __init__(self, name: str, program: Program) -> None:
        self._name = name
        self._program = program

    def read(
        self, urls: Iterable[str], options: Options, code: str = "stages = []"
    ) -> dict[str, Any]:
        """Return the result of reading the shards; see readers.py.

        ``code`` makes ``stages``, which are put into the pipeline.
        """
        job = {"reader": self._name, "urls": list(urls), "options": asdict(options), "code": code}
        self._program.ask(json.dumps(job))
        result: dict[str, Any] = json.loads(self._program.answer())
        return result


@dataclass(frozen=True, slots=True)
class Comparison:
    """One shard set, read by one reader."""

    made: ShardSet
    options: Options
    prediction: Prediction
    real: dict[str, Any]
    differences: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"seed {self.made.seed}: {'; '.join(self.differences)}", f"  {self.options}"]
        for shard in self.made.shards:
            lines += [
                f"  {shard.path}: {', '.join(shard.hurts) or 'sound'}",
                f"    {' '.join(shard.members)}",
            ]
        verdict, real = self.prediction.verdict, self.real
        lines.append(f"  predicted: {verdict.outcome}, {verdict.usable} usable")
        lines += [
            f"    {reason.slug}: {reason.message} ({reason.shard}, {reason.key})"
            for reason in verdict.reasons
        ]
        lines.append(f"  real: {real['error'] or ('stall' if real['stall'] else 'no error')}")
        for index, worker in enumerate(real["keys"]):
            predicted = self.prediction.keys[index] if index < len(self.prediction.keys) else []
            came, due = Counter(key for key, _ in worker), Counter(predicted)
            differ = f"unforeseen {dict(came - due)}, missing {dict(due - came)}"
            lines.append(f"    worker {index}: {sum(came.values())} samples; {differ}")
        return "\n".join(lines)


def options_for(reader: str, seed: int, shards: int) -> Options:
    """Draw the arguments of the reader.

    They are workers and ranks if these share the shards, and the fields that flags name.
    """
    rng = Random(seed)
    if READERS[reader].order is Reader.order:
        return Options()
    world_size = rng.choice((1, 1, 1, 2))
    workers = rng.choice([count for count in (0, 0, 1, 2, 3) if count * world_size <= shards])
    options = Options(
        seed=rng.randrange(5), epoch=rng.randrange(3), workers=workers, world_size=world_size
    )
    if not READERS[reader].takes_field_flags:
        return options
    return replace(
        options,
        image_key=rng.choice(
            (*["jpg;png;jpeg;webp"] * 4, "png;jpg", "seg.png;webp;jpeg;jpg", "gif;bmp;jpg")
        ),
        text_key=rng.choice(("txt", "txt", "txt;caption", "text;txt", "caption;;txt;")),
        json_text_key=rng.choice((None, None, "caption", "title; caption", "url;caption")),
        max_image_pixels=rng.choice((25_000_000, 25_000_000, 200, 0)),
    )


def compare(
    real_reader: RealReader, reader: str, seeds: Iterable[int], folder: Path
) -> Iterator[Comparison]:
    """Make each seed's shard set, and compare the prediction with the real reader.

    The set is removed if both agree.
    """
    for seed in seeds:
        home = folder_of(reader, seed, folder)
        known = READERS[reader]
        made = make_set(
            seed,
            home,
            tables=known.same_fields,
            labels=known.pairs_with == "label",
            apart=known.reads_index,
        )
        write_index(reader, home)
        options = options_for(reader, seed, len(made.shards))
        asker = READERS[reader](options)
        evidence = scan_all(
            made.urls, scan_options("full", [asker], list(map(single_shard, made.urls)))
        )
        prediction = predict(evidence, asker)
        real = real_reader.read(made.urls, options)
        unread = any(shard.tally("tar.sparse").count for shard in evidence.shards)
        differences = tuple(_differences(reader, prediction, real, unread=unread))
        yield Comparison(made, options, prediction, real, differences)
        if not differences:
            made.remove()
            clear(reader, home)


def _differences(
    reader: str, prediction: Prediction, real: Mapping[str, Any], *, unread: bool
) -> Iterator[str]:
    """Yield the differences between a prediction and the real result.

    ``unread``: contents of sparse members are taken as valid.
    """
    verdict = prediction.verdict
    if unread and not verdict.exact and verdict.usable > sum(map(len, real["keys"])):
        return
    if (
        READERS[reader].why_uncertain is not Reader.why_uncertain
        and not verdict.exact
        and verdict.least is None
    ):
        return  # it says itself that it does not know
    error, stall = real["error"] is not None, real["stall"]
    keys = [[key for key, _ in worker] for worker in real["keys"]]
    if (verdict.outcome == "crashes", verdict.outcome == "stalls") != (error, stall):
        yield f"verdict {verdict.outcome}, really {'error' if error else 'stall' if stall else 'it ran'}"
    if prediction.error != error:
        yield f"predicted {'an' if prediction.error else 'no'} error"
    # Nothing is known of the samples that come before an error.
    if error and READERS[reader].in_parallel:
        return
    if [Counter(worker) for worker in prediction.keys] != [Counter(worker) for worker in keys]:
        yield "other samples"
    if verdict.usable != sum(map(len, keys)):
        yield f"usable {verdict.usable}, really {sum(map(len, keys))}"
