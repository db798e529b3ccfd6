"""Runs pipelines as they are, to compare with what was predicted."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from tests.conformance.generate import make_set
from wdsflow.scan.evidence import Evidence, Level, ScanOptions
from wdsflow.scan.scan import scan_shard
from wdsflow.validate.pipeline.load_pipeline import PipelineError
from wdsflow.validate.pipeline.probe_pipeline import ProbeLimits, probe_pipeline
from wdsflow.validate.pipeline.probe_process import ProbeProcess
from wdsflow.validate.verdicts.verdict import Verdict

HERE = Path(__file__).parent
PROBES_ONLY = ProbeLimits(whole_seconds=0)


@cache
def jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG")
    return buffer.getvalue()


class RealRun:
    """Runs pipelines over whole sets, in a process of its own."""

    def __init__(self, module: str = "user_pipelines") -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "real_run.py"), module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, name: str, urls: list[str]) -> dict[str, Any]:
        """Return how many samples came out, and the error that ended the run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"make": name, "urls": urls}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def scanned(urls: list[str], level: Level = "full") -> tuple[Evidence, ScanOptions]:
    options = ScanOptions(level, varieties=True)
    return Evidence(level, [scan_shard(url, options) for url in urls]), options


def least(verdict: Verdict) -> int:
    return verdict.usable if verdict.least is None else verdict.least


@contextmanager
def probing(name: str, module: str) -> Iterator[ProbeProcess]:
    with ProbeProcess(f"{HERE / module}.py:{name}") as process:
        yield process


def differences(
    name: str, seeds: range, folder: Path, *, exact: bool = False, module: str = "user_pipelines"
) -> Iterator[str]:
    """Yield where predictions differ from what the pipeline really does, by reading the set whole and by probes only."""
    with closing(RealRun(module)) as real, probing(name, module) as process:
        for seed in seeds:
            made = make_set(seed, folder)
            evidence, options = scanned(made.urls)
            if evidence.samples and not all(shard.error for shard in evidence.shards):
                came = real.run(name, made.urls)
                for limits in (None, PROBES_ONLY):
                    try:
                        verdict = probe_pipeline(process, evidence, options, limits=limits)
                    except PipelineError as error:
                        if not came["error"]:
                            yield f"seed {seed}: {came}, {error}"
                        continue
                    held = least(verdict) <= came["count"] <= verdict.usable
                    told = (verdict.outcome == "crashes") == bool(came["error"]) or "may refuse others" in verdict.note
                    if not held or not told:
                        predicted = f"{verdict.outcome} {least(verdict)} to {verdict.usable}"
                        yield f"seed {seed}, {limits and 'probes only'}: {came}, predicted {predicted}: {verdict.note}"
                    elif limits is None and exact and not came["error"] and verdict.least is not None:
                        yield f"seed {seed}: a small set, and yet a range: {verdict.note}"
            made.remove()
