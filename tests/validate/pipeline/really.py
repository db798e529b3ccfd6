"""Runs pipelines as they are, to compare with what a report says."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.conformance.generate import make_set
from tests.validate.pipeline.small_set import scanned
from wdsflow.validate.pipeline.judge_pipeline import RunLimits, judge_pipeline
from wdsflow.validate.pipeline.user_code.load_pipeline import PipelineError

HERE = Path(__file__).parent


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


def differences(
    name: str, seeds: range, folder: Path, *, module: str = "user_pipelines"
) -> Iterator[str]:
    """Yield the differences between a report and the pipeline without wdsflow.

    A report that claims more than it saw counts as well.
    """
    with closing(RealRun(module)) as real:
        for seed in seeds:
            made = make_set(seed, folder)
            evidence, _ = scanned(made.urls)
            if evidence.samples and not all(shard.error for shard in evidence.shards):
                came = real.run(name, made.urls)
                spec = f"{HERE / module}.py:{name}"
                try:
                    verdict = judge_pipeline(spec, evidence, limits=RunLimits(whole=True))
                except PipelineError as error:
                    if not came["error"]:
                        yield f"seed {seed}: {came}, {error}"
                    continue
                assert verdict.run is not None
                said = f"{verdict.outcome}, {verdict.run.delivered} came out, {verdict.usable} of {verdict.samples}"
                if bool(came["error"]) != (verdict.outcome == "crashes"):
                    yield f"seed {seed}: {came}, but {said}"
                elif (
                    verdict.outcome not in ("crashes", "not judged")
                    and verdict.run.delivered != came["count"]
                ):
                    yield f"seed {seed}: {came}, but {said}: {verdict.reasons}"
                elif verdict.outcome == "trains" and came["count"] < 0.95 * evidence.samples:
                    yield f"seed {seed}: {came} of {evidence.samples}, but {said}"
            made.remove()
