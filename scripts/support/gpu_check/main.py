"""Runs the parts, and writes the table."""

import argparse
import json
import platform
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import feeding, others, recovery, similarity, towers
from .finding import Finding, MissingRequirement, Setting

# Exit status.
NO_GPU = 3
# The most important first.
PARTS: dict[str, Callable[[Setting], Iterable[Finding]]] = {
    "throughput": similarity.throughput,
    "recovery": recovery.recovery,
    "two-processes": recovery.two_processes,
    "cap": similarity.cap,
    "towers": towers.towers,
    "feed": feeding.feed,
    "random": others.random_states,
    "segments": recovery.expandable_segments,
    "text": others.text_detection,
}
USUAL = tuple(PARTS)[:7]
# Parts that run at the same time: they measure no rate, and others on the device make them harder.
_TOGETHER = {"recovery", "two-processes", "cap"}
# Seconds for the usual parts.
_LIMIT = 230.0
# Seconds of them, in proportion more with a larger limit.
_MOST = {"throughput": 105.0, "towers": 45.0, "feed": 35.0}
# Seconds; with less time no part begins.
_SHORTEST = 4.0


def main(arguments: Sequence[str]) -> int:
    """Check; return 0 if every goal was met."""
    options = parse_options(arguments)
    start = time.monotonic()
    device = "cpu" if options.cpu else _device()
    if device is None:
        print(
            "There is no GPU that PyTorch sees here: nothing was checked. --cpu runs what can be run without one."
        )
        return NO_GPU
    with tempfile.TemporaryDirectory(prefix="wdsflow-gpu-") as temporary:
        folder = str(Path(options.folder or temporary).absolute())
        setting = Setting(device, folder, options.quick, options.seconds, start + options.limit)
        result: dict[str, Any] = {**environment(device), "quick": options.quick, "parts": {}}

        def report(part: str, finding: Finding) -> None:
            result["parts"].setdefault(part, []).append(finding.to_dict())
            print(
                f"{options.limit - setting.remaining:4.0f} s  {part}: {finding.name}: {finding.value}",
                flush=True,
            )
            if options.json:
                options.json.write_text(json.dumps(result, indent=2) + "\n")

        check(setting, options.parts or USUAL, report, max(1.0, options.limit / _LIMIT))
    print(f"\n{table(result)}", flush=True)
    rows = [row for rows_of_part in result["parts"].values() for row in rows_of_part]
    return 1 if any(row["met"] is False for row in rows) else 0


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check", description="Check wdsflow on a machine with a GPU."
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"some of {', '.join(PARTS)}; by default all but the last two",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--folder", metavar="FOLDER", help="keep shards and weights there (2 GB)")
    parser.add_argument("--cpu", action="store_true", help="run what can be run without a GPU")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: to try the script, not to measure"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=8.0,
        metavar="S",
        help="measure each rate for about so long",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=_LIMIT,
        metavar="S",
        help="end after about so long, however far",
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return options


def check(
    setting: Setting, names: Sequence[str], report: Callable[[str, Finding], None], scale: float
) -> None:
    """Run parts of the check, and report each finding immediately.

    ``scale`` multiplies the usual time limit of each part.
    """
    together = [name for name in names if name in _TOGETHER]
    for name in names:
        if name not in together:
            end = time.monotonic() + _MOST.get(name, float("inf")) * scale
            _run(replace(setting, end=min(setting.end, end)), name, report)
        elif name == together[0]:
            with ThreadPoolExecutor(len(together)) as pool:
                list(pool.map(lambda part: _run(setting, part, report), together))


def _run(setting: Setting, name: str, report: Callable[[str, Finding], None]) -> None:
    """Run a part; if it fails, only its own goal is missed."""
    try:
        if setting.remaining < _SHORTEST:
            raise MissingRequirement(
                f"no time is left; --limit 600 has more, or run it alone: scripts/gpu_check {name}"
            )
        for finding in PARTS[name](setting):
            report(name, finding)
    except MissingRequirement as error:
        report(name, Finding(name, f"left out: {error}"))
    except Exception as error:  # noqa: BLE001 - the other parts are worth having
        traceback.print_exc()
        report(name, Finding(name, f"{type(error).__name__}: {error}"[:300], "", met=False))


def environment(device: str) -> dict[str, Any]:
    """Return the device, and the versions of programs."""
    import torch

    import wdsflow

    facts = {
        "date": time.strftime("%Y-%m-%d"),
        "device": platform.processor() or platform.machine(),
        "driver": "",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda or torch.version.hip or "",
        "wdsflow": wdsflow.__version__,
    }
    if device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(device)
        facts |= {
            "device": f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB",
            "driver": _driver(),
        }
    return facts


def table(result: dict[str, Any]) -> str:
    """Return the findings as Markdown."""
    driver = f", driver {result['driver']}" if result["driver"] else ""
    machine = f"{result['device']}{driver}, PyTorch {result['torch']}, Python {result['python']}, wdsflow {result['wdsflow']}"
    small = " Small sizes: the figures mean nothing." if result["quick"] else ""
    lines = [
        f"{result['date']}, {machine}.{small}",
        "",
        "| check | result | goal | |",
        "|---|---|---|---|",
    ]
    for rows in result["parts"].values():
        for row in rows:
            met = {True: "met", False: "missed", None: ""}[row["met"]]
            cells = (
                str(row[name]).replace("|", "\\|").replace("\n", " ")
                for name in ("name", "value", "goal")
            )
            lines.append(f"| {' | '.join(cells)} | {met} |")
    return "\n".join(lines)


def _device() -> str | None:
    import torch

    return "cuda:0" if torch.cuda.is_available() else None


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return answer.stdout.splitlines()[0].strip() if answer.stdout.strip() else "unknown"
