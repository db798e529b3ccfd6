"""Writes docs/benchmarks.md from the figures."""

from pathlib import Path
from statistics import median
from typing import Any

_OF_LOADERS = ("loader-", "first-batch", "fidelity")

INTRODUCTION = """\
# Benchmarks

Written by `scripts/bench --write-docs`; not by hand. Each comparison runs ours and the peer in turn on the same shards,
every run in a fresh process; the figures are medians. If the page cache is warm and one process does the work, its CPU
time counts, which other programs on the machine do not move; from a cold cache it is the time on the clock. The shards
are made by the script with webdataset's own TarWriter: 8 x 5,000 samples of a jpg of 20 KB with txt and json, and 8 x 500
of a jpg of 1.5 MB.
"""

LOADERS = """\
## Loaders

`loader-*`, `first-batch`: `wdsflow.training.openclip.get_wds_dataset` beside OpenCLIP's own, with the same arguments, the
same transform (`open_clip.image_transform(224)`), the same tokenizer, from a warm page cache; both make float32 batches of
256, which are thrown away. Each run is a process of its own. OpenCLIP's has the number of workers that was best in short
trials on this machine (below); ours gets the same argument, and has its usual number of decoding processes.

* Samples a second are those of a stretch within an epoch: it begins when each worker has delivered a batch, has whole
  rounds of one batch a worker, and at neither end a batch waits. The shuffle buffers of both are held at 1,000 samples,
  with which they begin to deliver: until they have grown to 5,000, they would read two samples for each given. The shards
  of 2 and 12 megapixels are listed many times over, so that no pass ends within the stretch.
* Mode `exact` beside the runs of OpenCLIP's loader in the row before, if they were measured in the same call.
* `first-batch` is the time from the call of `get_wds_dataset` to the first batch; everything has been imported before.
* `loader-memory`: the most memory that all processes of a loader had at a time, each page counted once (PSS, looked at
  every 50 ms), Python and PyTorch included; batches of 32, one worker a core.
* `fidelity`: PSNR over the pictures that differ between the modes; the others would count as infinite.
"""


FILTERS = """\
## Filtering

`filter-small`, `filter-large`: `wdsflow filter` beside webdataset read, a look at the picture's header by Pillow and at the
caption, and webdataset's TarWriter, one process each; ours writes a ledger with hashes too, and syncs what it writes.
`filter-pixels-*`: beside Data-Juicer in an environment of its own, one process, its filters fused so that pictures are
decoded once; the time for each core. `filter-damaged`: Data-Juicer as it is by default, in which the error of one picture
empties its batch.
"""

SCORING = """\
## Scores that models compute

On the processor, float32. `clip-similarity` is beside forward passes of both towers on random tensors, at the best of
three batch sizes; ours computes no padding of captions, so it can be faster. Of ViT-B-32 one layer a tower is there instead
of twelve: decoding, resizing and copying weigh twelve times as much. `clip-juicer*`: Data-Juicer runs its operator with one
and with two processes, the better one counts, less the time of a run over 32 samples; the values of both are compared.
If the model itself takes most of the time, as on a processor, nobody can be much faster than it; the smaller the
model, or the faster the device, the more counts what is around it.
"""


def write_page(result: dict[str, Any], page: Path) -> None:
    """Write the page for one run of the measurements."""
    machine, versions = result["machine"], result["versions"]
    where = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}"
    what = ", ".join(f"{name} {number}" for name, number in versions.items())
    entries = result["entries"]
    of_loaders = [row for row in entries if row["name"].startswith(_OF_LOADERS)]
    text = f"{INTRODUCTION}\n{result['date']}, {where}, Python {machine['python']}.\n{what}.\n\n"
    sections = {FILTERS: ("filter-", "cut-"), SCORING: ("clip-",)}
    others = [row for row in entries if not row["name"].startswith((*_OF_LOADERS, "filter-", "cut-", "clip-"))]
    text += _table(others)
    for about, names in sections.items():
        if rows := [row for row in entries if row["name"].startswith(names)]:
            text += f"\n{about}\n{_table(rows)}"
    if of_loaders:
        text += f"\n{LOADERS}\n{_table(of_loaders)}\n{_notes(of_loaders)}"
    page.write_text(text)


def _table(entries: list[dict[str, Any]]) -> str:
    rows = ["| | what | ours | peer | ratio | goal | |", "|---|---|---|---|---|---|---|"]
    return "\n".join([*rows, *map(_row, entries)]) + "\n"


def _notes(entries: list[dict[str, Any]]) -> str:
    """Say what differs from machine to machine."""
    lines = []
    for row in entries:
        if row["trials"] and not row["name"].endswith("-exact"):
            speeds = ", ".join(f"{workers}: {speed:.3g}" for workers, speed in row["trials"].items())
            lines.append(
                f"* `{row['name']}`: {row['ours_details'][0]['workers']} workers; samples/s in the trials by workers: {speeds}."
            )
    photographs = {row["shards"]: None for row in entries if "photographs" in row["shards"]}
    lines += [f"* Photographs: {shards}." for shards in photographs]
    for row in entries:
        details = row["ours_details"][0]
        if "cpu_ms_per_sample" in details:
            ours, peer = (
                median(each["cpu_ms_per_sample"] for each in row[f"{who}_details"]) for who in ("ours", "peer")
            )
            lines.append(f"* `{row['name']}`: {ours:.3g} and {peer:.3g} ms of CPU time a sample.")
        if "differ" in details:
            counts = f"{details['differ']} of {details['pictures']} pictures differ"
            lines.append(f"* `{row['name']}`: {counts}; the least PSNR was {details['least']:.3g} dB.")
    return "\n".join(lines) + "\n"


def _row(row: dict[str, Any]) -> str:
    unit = row["unit"]
    of = f" {unit}" if row["judged"] == "ours" else "x"
    goal = f"{row['goal_is']} {row['goal']:g}{of}"
    met = "met" if row["met"] else "missed"
    figures = f"{row['ours']:.3g} {unit} | {row['peer']:.3g} {unit} | {row['ratio']:.3g}x"
    return f"| `{row['name']}` | {row['title']} | {figures} | {goal} | {met} |"
