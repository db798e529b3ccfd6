"""Data-Juicer's own operators on samples of shards, in a separate environment.

Run `python similarity_juicer.py MODEL FILE PROCESSES`.

``FILE``: JSON lines with text and images. Prints one JSON line. Imports nothing of wdsflow, and
nothing of this folder.
"""

import json
import os
import sys
import time
from typing import Any

# Samples of a run whose time is taken off: starting processes, and loading there.
FEW = 32


def similarity(model: str, file: str, processes: int) -> dict[str, Any]:
    """Compute image_text_similarity for all samples."""
    from data_juicer.core.data import NestedDataset
    from data_juicer.ops.filter.image_text_similarity_filter import ImageTextSimilarityFilter

    with open(file) as lines:
        samples = [json.loads(line) for line in lines]

    def run(rows: list[dict[str, Any]]) -> tuple[float, list[float]]:
        operator = ImageTextSimilarityFilter(
            hf_clip=model, min_score=-1.0, num_proc=processes, accelerator="cpu"
        )
        dataset = NestedDataset.from_list(rows)
        start = time.perf_counter()
        scored = operator.run(dataset)
        seconds = time.perf_counter() - start
        return seconds, [row["image_text_similarity"][0] for row in scored["__dj__stats__"]]

    # Loads the model into this process, where there are no others.
    run(samples[:FEW])
    first, _ = run(samples[:FEW])
    seconds, values = run(samples[FEW:])
    if len(values) < len(samples) - FEW:
        raise SystemExit(f"{len(values)} values for {len(samples) - FEW} samples")
    rate = (len(values) - FEW) / max(seconds - first, 1e-9)
    return {
        "samples_per_s": rate,
        "seconds": seconds,
        "start_seconds": first,
        "values": values[:FEW],
    }


if __name__ == "__main__":
    # Nothing is to be fetched, from no hub and no counter of uses.
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    print(json.dumps(similarity(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
