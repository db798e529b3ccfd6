"""Measures clip_similarity: `python -m support.bench.scoring JOB '[PATH, ...]'`.

It runs in a separate process.

The CLIP has random weights. ``ONE_LAYER`` has the geometry of ViT-B-32 with one layer a tower
instead of twelve, so that 5,000 samples take half a minute on two cores: decoding weighs twelve
times as much as it does for the whole model. ``SMALL`` is as large as what one trains on a
processor: what is around a model counts.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

from support.environment import ROOT, ensure_juicer

BENCH = ROOT / ".bench"
ONE_LAYER, WHOLE, SMALL = "clip-one-layer", "clip-vit-b-32", "clip-small"
_TOWERS: dict[str, dict[str, dict[str, int]]] = {
    ONE_LAYER: {"vision": {"layers": 1}, "text": {"layers": 1}},
    WHOLE: {"vision": {}, "text": {}},
    SMALL: {
        "vision": {"layers": 3, "width": 192, "image_size": 64, "patch_size": 16},
        "text": {"layers": 3, "width": 192, "heads": 3},
    },
}
_FOR_JUICER, _SECONDS = 640, 12.0
# Samples that only warm Data-Juicer up, as in similarity_juicer.py.
_WARM_UP = 32
Result = dict[str, Any]


def score(paths: list[str], *, model: str = ONE_LAYER, workers: int | None = None) -> Result:
    """`wdsflow measure`; the clock runs from when models are loaded to the last ledger."""
    from support.gpu_check import similarity

    with tempfile.TemporaryDirectory(prefix="scoring-", dir=BENCH) as folder:
        figures = similarity.score(
            paths, Path(folder, "out"), _clip(model), jobs=workers, device="cpu"
        )
    if figures.pop("without"):
        raise SystemExit("samples without a value")
    return {**figures, "samples_per_s": figures.pop("rate"), "start_seconds": figures.pop("start")}


def forward(_: list[str]) -> Result:
    """Forward passes of both towers on tensors that are there, at the best of three batch sizes."""
    from support.gpu_check import similarity

    (figures,) = similarity.bare("cpu", [(_clip(ONE_LAYER), "fp32")], _SECONDS, (16, 32, 64))
    return {"samples_per_s": figures["whole"], "batch": figures["batch"]}


def juicer(paths: list[str], *, model: str = ONE_LAYER) -> Result:
    """Run Data-Juicer's image_text_similarity_filter with the same weights.

    Uses the number of processes that is fastest.
    """
    from support.bench.hf_clip import write_hf_clip

    _clip(model)
    write_hf_clip(BENCH / model, BENCH / f"{model}-hf")
    with tempfile.TemporaryDirectory(prefix="juicer-", dir=BENCH) as folder:
        listed = _as_files(paths[0], Path(folder))
        script = str(Path(__file__).with_name("similarity_juicer.py"))
        figures = []
        for processes in (1, 2):
            command = [
                str(ensure_juicer()),
                script,
                str(BENCH / f"{model}-hf"),
                listed,
                str(processes),
            ]
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            if process.returncode:
                raise SystemExit(
                    f"Data-Juicer ended with {process.returncode}\n{process.stderr[-4000:]}"
                )
            figures.append({**json.loads(process.stdout.splitlines()[-1]), "processes": processes})
        best: Result = max(figures, key=itemgetter("samples_per_s"))
        _check_values(paths[0], Path(folder), best.pop("values"), model)
    return best


def padding(_: list[str]) -> Result:
    """Return the number of computed cells for each real one.

    Captions have 1 to 70 words, pictures 32 to 512 pixels per side.
    """
    from support.bench.mixed import padded_over_real

    return padded_over_real(_clip(ONE_LAYER))


def _clip(name: str) -> str:
    from support.random_clip import write_clip

    return write_clip(BENCH / name, vision=_TOWERS[name]["vision"], text=_TOWERS[name]["text"])


def _as_files(shard: str, folder: Path) -> str:
    lines = []
    with tarfile.open(shard) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            data, path = file.read(), folder / member.name
            if path.suffix == ".jpg":
                path.write_bytes(data)
            elif path.suffix == ".txt":
                text = f"<__dj__image> {data.decode()} <|__dj__eoc|>"
                lines.append(json.dumps({"text": text, "images": [str(path.with_suffix(".jpg"))]}))
    listed = folder / "samples.jsonl"
    listed.write_text("\n".join(lines[:_FOR_JUICER]) + "\n")
    return str(listed)


def _check_values(shard: str, folder: Path, values: list[float], model: str) -> None:
    """Exit with an error if Data-Juicer's values differ from ours.

    This ensures that both compute the same thing. Data-Juicer's first samples only warm it up.
    """
    import pyarrow.parquet as pq

    from support.gpu_check import similarity

    similarity.score([shard], folder / "ours", _clip(model), jobs=0, device="cpu")
    [ledger] = (folder / "ours").rglob("*.parquet")
    table = pq.read_table(ledger)
    [name] = [name for name in table.column_names if name.startswith("clip_similarity")]
    ours = table[name].to_pylist()[_WARM_UP : _WARM_UP + len(values)]
    pairs = zip(ours, values, strict=True)
    differences = [abs(value - juicer_value) for value, juicer_value in pairs]
    if max(differences) > 0.005:
        raise SystemExit(f"Data-Juicer's values differ from ours by up to {max(differences)}")


JOBS: dict[str, Callable[[list[str]], Result]] = {
    "clip-score": score,
    "clip-forward": forward,
    "clip-juicer": juicer,
    "clip-score-small": lambda paths: score(paths, model=SMALL),
    "clip-juicer-small": lambda paths: juicer(paths, model=SMALL),
    "clip-padding": padding,
    "clip-8-workers": lambda paths: score(paths, model=WHOLE, workers=8),
    "clip-1-worker": lambda paths: score(paths, model=WHOLE, workers=1),
}


def run(job: str, paths: list[str]) -> Result:
    """Run a job in a separate process.

    Jobs about workers also report the peak memory of all processes.
    """
    from . import loaders

    arguments = [sys.executable, "-m", "support.bench.scoring", job, json.dumps(paths)]
    return loaders.run(arguments, watch="worker" in job)


if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](json.loads(sys.argv[2]))))
