"""Runs the measurements and writes them down."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from ..environment import JUICER_LOCK, ROOT, ensure_webdataset1
from . import loaders, mapping, pictures, scoring, shards
from .entries import ENTRIES
from .entry import MORE_IS_BETTER, Entry
from .loader_entries import PHOTOS
from .machine import machine
from .page import write_page

BENCH = ROOT / ".bench"
PAGE = ROOT / "docs" / "benchmarks.md"
HERE = Path(__file__).resolve().parent
Row = dict[str, Any]
Result = dict[str, Any]


class Material(NamedTuple):
    """Shards, the number of samples in each, and where they are from."""

    paths: list[str]
    samples: list[int]
    source: str


def main(arguments: list[str]) -> int:
    """Measure; return 0 if every goal was met."""
    names = [entry.name for entry in ENTRIES]
    options = parse_options(arguments, names)
    chosen = [entry for entry in ENTRIES if not options.names or entry.name in options.names]
    if options.list:
        for entry in chosen:
            print(f"{entry.name:18} {entry.title}")
        return 0
    if options.figures:
        write_page(joined(options.figures, names), PAGE)
        return 0
    webdataset1 = ensure_webdataset1()
    rows: list[Row] = []
    peers: dict[str, list[Result]] = {}
    header = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": versions(webdataset1),
    }
    for entry in chosen:
        material = prepare(entry.shards, webdataset1, options.photos)
        rows.append(measure(entry, material, peers, webdataset1))
        print(row_text(rows[-1]), flush=True)
        # After each, so that nothing measured is lost with an interrupted run.
        if options.json:
            options.json.write_text(json.dumps({**header, "entries": rows}, indent=2) + "\n")
    if options.write_docs:
        write_page({**header, "entries": rows}, PAGE)
    return 0 if all(row["met"] for row in rows) else 1


def parse_options(arguments: list[str], names: list[str]) -> argparse.Namespace:
    """Return the options of the command line; ``names`` are those of all measurements."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Compare wdsflow with its peers."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)}; none means all"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument(
        "--photos",
        type=Path,
        metavar="FOLDER",
        help="its .tar shards take the place of made photographs",
    )
    parser.add_argument(
        "--from",
        dest="figures",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="measure nothing: write docs/benchmarks.md from what --json wrote on this machine, the latest last",
    )
    parser.add_argument("--list", action="store_true", help="list the measurements, and exit")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(names):
        parser.error(f"no such entry: {', '.join(sorted(unknown))}")
    return options


def joined(files: list[Path], names: list[str]) -> Result:
    """Return the figures of several runs on one machine, merged into one.

    If several runs have the same entry, the last one counts.
    """
    runs = [json.loads(file.read_text()) for file in files]
    if any(run["machine"] != runs[0]["machine"] for run in runs):
        raise SystemExit("these figures are of different machines")
    rows: dict[str, Row] = {}
    versions: dict[str, str] = {}
    for run in runs:
        rows |= {row["name"]: row for row in run["entries"]}
        versions |= run["versions"]
    entries = [rows[name] for name in names if name in rows]
    return {**runs[-1], "versions": versions, "entries": entries}


def prepare(name: str, webdataset1: Path, photos: Path | None) -> Material:
    """Make a set of shards unless it is there."""
    if name == PHOTOS and photos is not None:
        paths = loaders.shards_in(photos)
        counts = [loaders.count_pictures([path]) for path in paths]
        return Material(paths, counts, "photographs given with --photos")
    if name == mapping.ROWS_ONLY:
        return Material([], [mapping.ROWS], "rows")
    shard_count, samples = shards.SETS[name]
    paths = shards.paths(BENCH, name)
    if not all(os.path.isfile(path) for path in paths):
        start = time.monotonic()
        print(f"making .bench/{name} ... ", end="", flush=True)
        call([sys.executable, "-m", "support.bench.shards", str(BENCH), name], webdataset1)
        print(f"{time.monotonic() - start:.0f} s", flush=True)
    source = "photographs of 2 to 30 megapixels, made by the script"
    return Material(paths, [samples] * shard_count, source)


def measure(
    entry: Entry, material: Material, peers: dict[str, list[Result]], webdataset1: Path
) -> Row:
    """Run ours and the peer in turn, and return the medians.

    ``peers`` holds earlier results of peers, which are used again.
    """
    paths = material.paths[: entry.first]
    samples = sum(material.samples[: entry.first])
    if not entry.cold:
        # The first run must not pay for the disk.
        run_job("read", paths, webdataset1)
    ours: list[Result] = []
    peer = list(peers.get(entry.peer_of or "", []))
    for number in range(entry.runs):
        ours.append(run(entry, entry.ours, paths * entry.times, samples * entry.times, webdataset1))
        if number >= len(peer):
            peer.append(run(entry, entry.peer, paths, samples, webdataset1))
    expected = {result["seen"] * entry.times if "seen" in result else None for result in peer}
    if len(expected | {result.get("seen") for result in ours}) > 1:
        raise SystemExit(f"{entry.name}: the two saw different numbers of samples: {ours}, {peer}")
    peers[entry.name] = peer
    ours_median = median(entry.measure, ours)
    peer_median = median(entry.measure, peer)
    ratio = ratio_of(entry, ours_median, peer_median)
    judged = ours_median if entry.judged == "ours" else ratio
    set_name = entry.shards
    if set_name == PHOTOS:
        set_name = f"{sum(material.samples)} {material.source}"
    return {
        "name": entry.name,
        "title": entry.title,
        "ours": ours_median,
        "peer": peer_median,
        "unit": entry.unit,
        "ratio": ratio,
        "goal": entry.goal,
        "goal_is": "at most" if entry.at_most else "at least",
        "judged": entry.judged,
        "met": judged <= entry.goal if entry.at_most else judged >= entry.goal,
        "ours_seconds": median("seconds", ours),
        "peer_seconds": median("seconds", peer),
        "ours_runs": [result[entry.measure] for result in ours],
        "peer_runs": [result[entry.measure] for result in peer],
        "samples": samples,
        "shards": set_name,
        "trials": loaders.trials(entry.shards, entry.plan),
        "ours_details": ours,
        "peer_details": peer,
    }


def ratio_of(entry: Entry, ours: float, peer: float) -> float:
    """Return how many times better ours is than the peer.

    If the goal is an upper bound, it is ours divided by the peer.
    """
    if entry.at_most or entry.unit in MORE_IS_BETTER:
        return ours / peer if peer else float("inf")
    # Less is better.
    return peer / ours if ours else float("inf")


def median(measure: str, runs: list[Result]) -> float:
    """Return the median of one figure over some runs."""
    return float(statistics.median(result.get(measure, 0.0) for result in runs))


def run(entry: Entry, job: str, paths: list[str], samples: int, webdataset1: Path) -> Result:
    """Run one job once, and return all its figures, shares in percent."""
    if job == "bound":
        return {entry.measure: entry.bound}
    if job.startswith("data-juicer"):
        return pictures.data_juicer(paths, BENCH / "pictures", damaged=job.endswith("-damaged"))
    if job in scoring.JOBS:
        return scoring.run(job, paths)
    if job == "fidelity":
        return loaders.run_fidelity(paths)
    if entry.shards == mapping.ROWS_ONLY:
        return mapping.run(job)
    if entry.plan is not None:
        return loaders.run_loader(job, entry.plan, entry.shards, paths, samples)
    if entry.cold:
        drop_page_cache(paths)
    result = run_tar(paths) if job == "tar" else run_job(job, paths, webdataset1)
    if result.get("samples", samples) != samples:
        message = f"{entry.name}: {job} saw {result['samples']} samples, and there are {samples}"
        raise SystemExit(message)
    if entry.unit == "%":
        result[entry.measure] *= 100 / samples
    return result


def run_job(job: str, paths: list[str], webdataset1: Path) -> Result:
    """Run a job of jobs.py in a fresh process."""
    printed = call([sys.executable, str(HERE / "jobs.py"), job, json.dumps(paths)], webdataset1)
    result: Result = json.loads(printed.splitlines()[-1])
    return result


def run_tar(paths: list[str]) -> Result:
    """List the shards with GNU tar, one process a shard; their start is a millisecond each."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    names = 0
    for path in paths:
        listing = subprocess.run(["tar", "tf", path], capture_output=True, check=True)
        names += listing.stdout.count(b"\n")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": cpu,
        "samples": names // shards.FIELDS,
    }


def drop_page_cache(paths: list[str]) -> None:
    """Drop files from the page cache."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def call(command: list[str], webdataset1: Path) -> str:
    """Run a command, and return what it printed.

    PYTHONPATH has webdataset 1.x and the parent of the package ``support``.
    """
    path = os.pathsep.join([str(webdataset1), str(ROOT / "scripts")])
    environment = os.environ | {"PYTHONPATH": path}
    process = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    if process.returncode:
        raise SystemExit(f"{' '.join(command)[:200]}\n{process.stderr}")
    return process.stdout


def versions(webdataset1: Path) -> dict[str, str]:
    """Return the versions of what was measured."""
    peer = next(webdataset1.glob("webdataset-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    tar = subprocess.run(
        ["tar", "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
    ours = {name: version(name) for name in ("wdsflow", "pillow", "simplejpeg", "orjson", "numpy")}
    feed = {name: version(name) for name in ("open_clip_torch", "torch", "torchvision")}
    juicer = next(
        line for line in JUICER_LOCK.read_text().splitlines() if line.startswith("py-data-juicer==")
    )
    feed["py-data-juicer"] = juicer.partition("==")[2].partition(" ")[0]
    return {
        **ours,
        **feed,
        "webdataset": f"{peer} ({version('webdataset')} for OpenCLIP)",
        "tar": tar.split()[-1],
    }


def row_text(row: Row) -> str:
    """Return a row as a line for people."""
    met = "met" if row["met"] else "MISSED"
    judged = f"{row['unit']}" if row["judged"] == "ours" else "x"
    figures = f"ours {row['ours']:.3g} {row['unit']}, peer {row['peer']:.3g} {row['unit']}, ratio {row['ratio']:.3g}"
    cpu = [median("cpu_ms_per_sample", row[name]) for name in ("ours_details", "peer_details")]
    measured = [f"{milliseconds:.3g}" for milliseconds in cpu if milliseconds]
    if measured:
        figures += f" (CPU ms a sample {', '.join(measured)})"
    return f"{row['name']:18} {figures}; goal {row['goal_is']} {row['goal']:g} {judged}: {met}"
