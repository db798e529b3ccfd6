"""Scores that models compute: speed beside bare forward passes and Data-Juicer, padding, memory."""

from .entry import Entry

SCORING = [
    Entry(
        "clip-similarity",
        "clip_similarity, 5,000 samples, beside forward passes on tensors that are there (ViT-B-32, one layer a tower)",
        "clip-score",
        "clip-forward",
        "pairs",
        0.9,
        measure="samples_per_s",
        unit="samples/s",
        runs=1,
    ),
    Entry(
        "clip-juicer",
        "the same beside Data-Juicer's image_text_similarity_filter with the same weights",
        "clip-score",
        "clip-juicer",
        "pairs",
        3,
        measure="samples_per_s",
        unit="samples/s",
        runs=1,
    ),
    Entry(
        "clip-padding",
        "cells computed for each real one: captions of 1 to 70 words, pictures of 32 to 512 pixels",
        "clip-padding",
        "bound",
        "pairs",
        1.2,
        at_most=True,
        measure="padding",
        unit="x",
        runs=1,
        bound=1.2,
        judged="ours",
    ),
    Entry(
        "clip-memory",
        "peak memory of all processes that score by ViT-B-32, 8 workers, beside 1",
        "clip-8-workers",
        "clip-1-worker",
        "pairs-few",
        1.3,
        at_most=True,
        measure="peak_mb",
        unit="MB",
        runs=1,
    ),
]
