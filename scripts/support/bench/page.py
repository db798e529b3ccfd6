"""Writes docs/benchmarks.md from the figures."""

from pathlib import Path
from statistics import median
from typing import Any

_OF_LOADERS = ("loader-", "first-batch", "fidelity")
_ON_A_GPU = Path(__file__).with_name("on_a_gpu.md")  # by hand, from what scripts/gpu_check printed on another machine

INTRODUCTION = """\
# Benchmarks

`scripts/bench --write-docs` writes this page. Each comparison runs wdsflow and the peer in turn on the same shards, each
run in a fresh process; figures are medians. If the page cache is warm and one process does the work, CPU time counts,
because other programs on the machine do not affect it. From a cold cache, wall-clock time counts. The script makes the
shards with webdataset's own TarWriter: 8 x 5,000 samples of a jpg of 20 KB with txt and json, and 8 x 500 of a jpg of
1.5 MB.
"""

LOADERS = """\
## Loaders

`loader-*`, `first-batch`: `wdsflow.training.openclip.get_wds_dataset` compared with OpenCLIP's own, with the same
arguments, transform (`open_clip.image_transform(224)`) and tokenizer, from a warm page cache. Both make float32 batches
of 256, which are discarded. Each run is a separate process. OpenCLIP's loader has the number of workers that was best in
short trials on this machine (below); wdsflow's gets the same argument, and its usual number of decoding processes.

* Samples per second are those of a stretch within an epoch. It begins when each worker has delivered a batch, and has
  whole rounds of one batch per worker; at neither end a batch waits. The shuffle buffers of both are limited to 1,000
  samples, at which they begin to deliver: while growing to 5,000, they would read two samples for each one given. The
  shards of 2 and 12 megapixels are listed many times, so no pass ends within the stretch.
* Mode `exact` is compared with the runs of OpenCLIP's loader in the row before, if both were measured in the same call.
* `first-batch` is the time from the call of `get_wds_dataset` to the first batch, after all imports.
* `loader-handover`: samples by the processor time of the training process alone: it lists shards, plans batches, receives
  samples from decoders, normalises and joins them. With enough cores for decoders, it is what bounds a loader.
* `loader-subset`: wdsflow's feed on both sides, two workers, batches of 128. The scores are captions' lengths, computed
  before; the half is spread over all shards. The peer decodes all samples; that it drops half of them is taken to cost
  nothing. A pipeline that drops before it decodes loses less: it reads everything, and decodes half.
* `loader-memory`: the peak memory of all processes of a loader, each page counted once (PSS, sampled every 50 ms),
  Python and PyTorch included; batches of 32, one worker per core.
* `fidelity`: PSNR over the pictures that differ between the modes; the others would count as infinite.
"""


FILTERS = """\
## Filtering

`filter-small`, `filter-large`: `wdsflow filter` compared with webdataset read, a check of the picture's header by Pillow
and of the caption, and webdataset's TarWriter, one process each; wdsflow also writes a ledger with hashes, and syncs its
files. `filter-pixels-*`: compared with Data-Juicer in a separate environment, one process, with fused filters that
decode pictures once; time per core. `resize-*`: `wdsflow filter --resize 512` compared with the same loop of webdataset and
TarWriter, in which Pillow or OpenCV decodes at full size, resizes (Lanczos; `INTER_AREA`, img2dataset's default) and encodes with
quality 95. `filter-damaged`: Data-Juicer with its defaults, with which the error of one picture
empties its batch.
"""

RESHARDING = """\
## Resharding

Wall-clock time of `wdsflow reshard` with two threads, compared with `cp` and `sync` of the same shards, from a warm page
cache: 4 x 5,000 samples of 20 KB, 32 x 5,000 of them (`-many`), and 500 samples of 1.5 MB. They become 7 shards.
The first pass, over the headers, takes 10 to 20 microseconds of one core for each sample, whatever its size: the smaller
the samples, the larger its part. A fixed part is the record by which a run resumes, which is synced for each shard.
Where it would take longer than a second, that pass runs in processes: of the sets of the table, those `-many` are large enough.
"""

GRAFTS = """\
## Grafting

`graft-*`: `wdsflow graft` of a caption for each sample, by key, from a Parquet file whose rows are in another
order; its two passes, the table and the sync of all files are in the time. Compared with `cp` of the shards and `sync`. Of
small samples the work in Python counts most, of large ones the copy. Large sets are worked on in processes: of those of the
table, `graft-many` is large enough.
"""

PACKING = """\
## Packing

`pack-*`: `wdsflow pack` of files and a table of JSON lines with their captions, two shards at once, compared with `tar cf` of
the files and `sync`, from a warm page cache. Of small files the work in Python counts most, and from 2,000 rows on a second
process does half of it; of large ones pack is faster, because it writes two shards at once.
"""

REMOTE = """\
## Shards in an object store

`remote-*`: `wdsflow validate --level names`, `wdsflow filter` and an epoch of `wdsflow.feed`, whose samples were counted
before, with their usual number of processes, on shards in a small S3 on this machine that answers after 20 ms and sends
200 MB/s in all, compared with the same shards in the page cache.
The peer's time is at least that in which the line passes all bytes of the shards. The store takes a part of the processor.
Of large samples only headers are fetched, one after the other: each costs a round trip, so that shards read at the same
time count, not the bandwidth. A process needs about 1.5 s before its first shard, most of it for s3fs.

s3fs 2026.9 takes 4 ms of CPU time for a request of 8 KB, and 0.9 s to be imported and to connect. obstore 0.12 takes 0.5 ms
and 0.03 s, and as long as s3fs for streams (0.3 s of CPU time for 100 MB). wdsflow uses s3fs nevertheless: obstore finds no
credentials in `~/.aws`, and knows nothing of the settings of fsspec.
"""

SCORING = """\
## Scores that models compute

On the CPU, float32. `clip-similarity` is compared with forward passes of both towers on random tensors, at the best of
three batch sizes; wdsflow computes no padding of captions, so it can be faster. ViT-B-32 has one layer per tower here
instead of twelve: decoding, resizing and copying weigh twelve times as much. `clip-juicer*`: Data-Juicer runs its
operator with one and with two processes; the better run counts, less the time of a run over 32 samples; the values of
both are compared. If the model itself takes most of the time, as on a CPU, no program can be much faster than it. The
smaller the model, or the faster the device, the more the other work counts.
"""


def write_page(result: dict[str, Any], page: Path) -> None:
    """Write the page for one run of the measurements."""
    machine, versions = result["machine"], result["versions"]
    where = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}"
    what = ", ".join(f"{name} {number}" for name, number in versions.items())
    entries = result["entries"]
    of_loaders = [row for row in entries if row["name"].startswith(_OF_LOADERS)]
    text = f"{INTRODUCTION}\n{result['date']}, {where}, Python {machine['python']}.\n{what}.\n\n"
    sections = {
        FILTERS: ("filter-",),
        RESHARDING: ("reshard-",),
        GRAFTS: ("graft-",),
        PACKING: ("pack-",),
        REMOTE: ("remote-",),
        SCORING: ("clip-",),
    }
    apart = tuple(start for names in sections.values() for start in names)
    others = [row for row in entries if not row["name"].startswith((*_OF_LOADERS, *apart))]
    text += _table(others)
    for about, names in sections.items():
        if rows := [row for row in entries if row["name"].startswith(names)]:
            text += f"\n{about}\n{_table(rows)}"
    if of_loaders:
        text += f"\n{LOADERS}\n{_table(of_loaders)}\n{_notes(of_loaders)}"
    page.write_text(f"{text}\n{_ON_A_GPU.read_text()}")


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
        if all("cpu_ms_per_sample" in row[f"{who}_details"][0] for who in ("ours", "peer")):
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
