"""Runs a pipeline over whole shards, without wdsflow.

It reads lines ``{"make": ..., "urls": [...]}``, and answers each with a line for the outcome.
"""

import importlib
import json
import logging
import os
import sys
import warnings


def rows(element):
    """Return the samples in a batch."""
    if isinstance(element, (list, tuple, dict)) and not element:
        return 0
    first = element[0]
    samples = isinstance(first, (dict, tuple)) or (
        isinstance(first, list) and len(set(map(type, first))) > 1
    )
    is_columns = isinstance(element, (list, tuple)) and not samples
    return len(first) if is_columns else len(element)


def count(name, urls):
    """Return how many samples come out, and the exception that ended the run."""
    pipelines = importlib.import_module(sys.argv[1])  # next to this script
    batched = getattr(pipelines, "BATCHED", ())
    came = 0
    try:
        for element in getattr(pipelines, name)(urls):
            came += rows(element) if name in batched else 1
    except Exception as error:
        return {"count": came, "error": type(error).__name__}
    return {"count": came, "error": None}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        job = json.loads(line)
        out.write(json.dumps(count(job["make"], job["urls"])) + "\n")
        out.flush()
