"""Data-Juicer's filters: `python juicer_filters.py JSON` prints one JSON line.

It runs in its own environment.

It stands alone: nothing of ours can be imported there. The same pictures are in files, as
Data-Juicer reads them, and the same samples stay: both sides at least 200 pixels, at most three
times as wide as high, not of one colour. Data-Juicer has no operator for the last; the one below is
written as its own are, and shares their decoded pictures.
"""

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BLANK = '''
from data_juicer.ops.base_op import OPERATORS, Filter
from data_juicer.ops.op_fusion import LOADED_IMAGES
from data_juicer.utils.constant import Fields
from data_juicer.utils.mm_utils import load_data_with_context, load_image


@OPERATORS.register_module("image_blank_filter")
@LOADED_IMAGES.register_module("image_blank_filter")
class ImageBlankFilter(Filter):
    """Drops images of one colour: at least 99.9 % of each channel within 8 levels of its median."""

    def compute_stats_single(self, sample, context=False):
        keys = sample[self.image_key]
        sample, images = load_data_with_context(sample, context, keys, load_image, mm_bytes_key=self.image_bytes_key)
        sample[Fields.stats]["blank"] = [_is_blank(images[key]) for key in keys]
        return sample

    def process_single(self, sample):
        return not any(sample[Fields.stats]["blank"])


def _is_blank(image):
    counts = image.histogram()
    for start in (0, 256, 512):
        channel = counts[start : start + 256]
        size, below = sum(channel), 0
        for median, count in enumerate(channel):
            below += count
            if 2 * below >= size:
                break
        if sum(channel[max(0, median - 8) : median + 9]) < 0.999 * size:
            return False
    return True
'''


def run(lines: str, fused: bool) -> dict[str, Any]:
    """Filter pictures with Data-Juicer's own executor and one process.

    The pictures are those that a file of JSON lines names.

    ``fused``: its filters share decoded pictures. That is no default, but faster; a picture that
    cannot be opened ends such a run.
    """
    from data_juicer.config import init_configs
    from data_juicer.core.executor import DefaultExecutor

    with tempfile.TemporaryDirectory(dir=os.path.dirname(lines)) as folder:
        operators = Path(folder, "operators")
        operators.mkdir()
        (operators / "__init__.py").write_text("from . import image_blank_filter\n")
        (operators / "image_blank_filter.py").write_text(BLANK)
        out = Path(folder, "out", "kept.jsonl")
        recipe = {
            "project_name": "bench",
            "dataset_path": lines,
            "export_path": str(out),
            "work_dir": str(Path(folder, "out")),
            "np": 1,
            "auto_op_parallelism": False,
            "op_fusion": fused,
            "fusion_strategy": "greedy",
            "use_cache": False,
            "custom_operator_paths": [str(operators)],
            "process": [
                {"image_shape_filter": {"min_width": 200, "min_height": 200}},
                {"image_aspect_ratio_filter": {"min_ratio": 0, "max_ratio": 3.0}},
                {"image_blank_filter": {}},
            ],
        }
        config = Path(folder, "recipe.json")
        config.write_text(json.dumps(recipe))
        executor = DefaultExecutor(init_configs(["--config", str(config)]))
        start, cpu_before = time.perf_counter(), _cpu()
        executor.run()
        seconds, cpu = time.perf_counter() - start, _cpu() - cpu_before
        kept = len(out.read_text().splitlines()) if out.exists() else 0
    return {"seconds": seconds, "cpu_seconds": cpu, "seen": kept}


def _cpu() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    result = run(*json.loads(sys.argv[1]))
    # Its logging has taken the place of sys.stdout.
    print(json.dumps(result), file=sys.__stdout__)
