"""The options of the commands, each with its help."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from .typed_command import LINES, MACHINES, MAIN, OTHER, OUTPUT, SAMPLES


class Level(str, Enum):
    """How much to read."""

    names = "names"
    headers = "headers"
    full = "full"


class FormatChoice(str, Enum):
    """Formats of the report."""

    text = "text"
    json = "json"
    sarif = "sarif"
    junit = "junit"
    github = "github"
    html = "html"


class EngineChoice(str, Enum):
    """The engine that does the work."""

    local = "local"
    ray = "ray"


Engines = Annotated[
    EngineChoice,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="local: processes on this machine. ray: a Ray cluster (needs the extra ray). All its nodes must see shards that are files, and the output folder, under the same paths.",
        rich_help_panel=MACHINES,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Address of the Ray cluster. By default RAY_ADDRESS, the cluster of this machine, or a new one.",
        rich_help_panel=MACHINES,
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="Where models run: auto (all GPUs, or the CPU if there is none), cpu, cuda, cuda:1.",
        rich_help_panel=MACHINES,
    ),
]
GpuMemory = Annotated[
    str | None,
    typer.Option(
        "--gpu-memory", metavar="SIZE", help="Limit for models on each GPU: 8GiB or 80%.", rich_help_panel=MACHINES
    ),
]
Embeddings = Annotated[
    bool | None,
    typer.Option(
        "--embeddings/--no-embeddings",
        help="Store the CLIP embeddings of images and captions in the ledger, as half floats.",
        rich_help_panel=SAMPLES,
    ),
]
Embedded = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="DIR",
        help="Folder that score or filter wrote with --embeddings. Scores of the same CLIP use its embeddings.",
        rich_help_panel=SAMPLES,
    ),
]
Numbering = Annotated[
    str | None,
    typer.Option(
        "--numbering",
        metavar="WHAT",
        help="Names of the output shards. kept (default): as the inputs. dense: 00000.tar and so on without gaps, assigned when all shards of all slices are done.",
        rich_help_panel=OUTPUT,
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="WHAT",
        help="Format of the output for JSON lines. jsonl (default): the lines. tar: shards with their images.",
        rich_help_panel=LINES,
    ),
]
TarSamples = Annotated[
    int | None,
    typer.Option(
        "--tar-samples",
        min=1,
        metavar="N",
        help="With --to tar: samples per shard; 10000 by default.",
        rich_help_panel=LINES,
    ),
]
TarSize = Annotated[
    str | None,
    typer.Option(
        "--tar-size", metavar="SIZE", help="With --to tar: size of a shard; 1GiB by default.", rich_help_panel=LINES
    ),
]
Urls = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="URL...", help="Shards: paths, braces {000..042}, globs, folders, @list.txt or urls. a::b means both."
    ),
]
Shards = Annotated[list[str], typer.Argument(metavar="URL...", help="Shards, as for validate.")]
Readers = Annotated[
    list[str] | None,
    typer.Option(
        "--for",
        metavar="READER",
        help="Reader to judge for; repeatable. open-clip (default: the installed version), open-clip-3.3, open-clip-4, webdataset-1, webdataset-0.2, datasets, datasets-tables, ray-data, timm, energon, energon-crude, dali, wids.",
        rich_help_panel=MAIN,
    ),
]
Pipeline = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        metavar="CODE",
        help="Judge for your own loader: module:object or path/to/train.py:make, run over a few samples of each kind. Readers of --for are judged only if named.",
        rich_help_panel=MAIN,
    ),
]
Levels = Annotated[
    Level,
    typer.Option(
        "--level",
        metavar="LEVEL",
        help="names: read tar headers only. headers: also captions, json and image headers. full: decode everything; exact.",
        rich_help_panel=MAIN,
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        metavar="CODES",
        help="Run only these rules: codes or their first letters, such as W001,F.",
        rich_help_panel=MAIN,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="CODES",
        help='Accept findings of these rules: CODES, or CODE="reason" to show why.',
        rich_help_panel=MAIN,
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Findings in this file are known and do not fail the run.",
        rich_help_panel=MAIN,
    ),
]
WriteBaseline = Annotated[
    Path | None,
    typer.Option(
        "--write-baseline",
        metavar="FILE",
        help="Write all findings to this file, as the known ones.",
        rich_help_panel=OTHER,
    ),
]
Certify = Annotated[
    Path | None,
    typer.Option(
        "--certify",
        metavar="FILE",
        help="If no error is found, write a certificate: what was judged, and the hash of each shard, for wdsflow verify. Reads all bytes.",
        rich_help_panel=OUTPUT,
    ),
]
Croissant = Annotated[
    Path | None,
    typer.Option(
        "--croissant",
        metavar="FILE",
        help="Write metadata in the Croissant format (JSON-LD), with the hash of each shard. Reads all bytes.",
        rich_help_panel=OUTPUT,
    ),
]
Manifest = Annotated[
    Path | None,
    typer.Option(
        "--manifest",
        metavar="FILE",
        help="Only compare shards with checksums.json of wdsflow index --checksums: by size and time of change, or with --level full by hash.",
        rich_help_panel=OTHER,
    ),
]
Formats = Annotated[
    FormatChoice,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Format of the report: text, json, sarif, junit, github or html.",
        rich_help_panel=MAIN,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", metavar="FILE", help="Write the report to this file, and print a summary.", rich_help_panel=MAIN
    ),
]
MaxLoss = Annotated[
    str,
    typer.Option(
        "--max-loss",
        metavar="SHARE",
        help="Share of samples that may be lost, such as 5% or 0.05.",
        rich_help_panel=MAIN,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", min=1, metavar="N", help="Number of processes; by default one per core.", rich_help_panel=MAIN
    ),
]
WorldSize = Annotated[
    int,
    typer.Option(
        "--world-size", min=1, metavar="N", help="Number of ranks (GPUs) that will train.", rich_help_panel=MACHINES
    ),
]
AllowPipe = Annotated[bool, typer.Option("--allow-pipe", help="Run pipe: urls in a shell.", rich_help_panel=OTHER)]
PrintSchema = Annotated[
    bool,
    typer.Option("--print-schema", help="Print the JSON Schema of --format json, and exit.", rich_help_panel=OTHER),
]
Keys = Annotated[int, typer.Option("--keys", min=0, metavar="N", help="List the first N samples with their offsets.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
