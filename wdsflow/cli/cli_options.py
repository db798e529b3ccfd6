"""The options of the commands, each with its help."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Level(str, Enum):
    """How closely to look."""

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
    """Who works."""

    local = "local"
    ray = "ray"


Engines = Annotated[
    EngineChoice,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="local: processes on this machine; ray: a Ray cluster (needs the extra ray), all of whose nodes have to "
        "see shards that are files, and the output folder, under the same paths.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Of the Ray cluster; by default RAY_ADDRESS, the cluster of this machine, or a new one.",
        show_default=False,
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device", metavar="DEVICE", help="Where models run: auto (all GPUs, else the CPU), cpu, cuda, cuda:1."
    ),
]
GpuMemory = Annotated[
    str | None,
    typer.Option(
        "--gpu-memory", metavar="SIZE", help="What models may take of each GPU: 8GiB or 80%.", show_default=False
    ),
]
Embeddings = Annotated[
    bool | None,
    typer.Option(
        "--embeddings/--no-embeddings",
        help="Keep what CLIPs compute of images and captions in the ledger, as half floats.",
        show_default=False,
    ),
]
Embedded = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="DIR",
        help="Folder that score or filter wrote with --embeddings: scores on a CLIP take them from there.",
        show_default=False,
    ),
]
Numbering = Annotated[
    str | None,
    typer.Option(
        "--numbering",
        metavar="WHAT",
        help="Names of the outputs: kept (default), as the inputs'; or dense, 00000.tar and so on without gaps, which they "
        "get when all shards of all slices are done, and not before.",
        show_default=False,
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="WHAT",
        help="What is written of JSON lines: jsonl (default), the lines, or tar, shards with their images.",
        show_default=False,
    ),
]
TarSamples = Annotated[
    int | None,
    typer.Option("--tar-samples", min=1, metavar="N", help="With --to tar: samples in one; by default 10000."),
]
TarSize = Annotated[
    str | None, typer.Option("--tar-size", metavar="SIZE", help="With --to tar: size of one; by default 1GiB.")
]
Urls = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="URL...",
        show_default=False,
        help="Shards: paths, braces {000..042}, globs, folders, @list.txt, urls; a::b names several.",
    ),
]
Readers = Annotated[
    list[str] | None,
    typer.Option(
        "--for",
        metavar="CONSUMER",
        help="Reader to judge for, may come several times: open-clip (the installed version, the default), "
        "open-clip-3.3, open-clip-4, webdataset-1, datasets, ray-data.",
    ),
]
Levels = Annotated[
    Level,
    typer.Option(
        "--level",
        metavar="LEVEL",
        help="names: headers of the tar only; headers: also captions, json and image headers; "
        "full: decode everything, exact.",
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option("--select", metavar="CODES", help="Run only these rules: codes or their first letters."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="CODES", help='Accept these: CODES, or CODE="reason" to show why.'),
]
Baseline = Annotated[
    Path | None, typer.Option("--baseline", metavar="FILE", help="Findings in this file are known and do not fail.")
]
WriteBaseline = Annotated[
    Path | None,
    typer.Option("--write-baseline", metavar="FILE", help="Write all findings there, as known from now on."),
]
Formats = Annotated[
    FormatChoice, typer.Option("--format", metavar="FORMAT", help="text, json, sarif, junit, github or html.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="Write the report there; a summary is still shown."),
]
MaxLoss = Annotated[
    str, typer.Option("--max-loss", metavar="SHARE", help="Share of samples that may vanish, as 5% or 0.05.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, metavar="N", help="Processes; by default one a core.", show_default=False),
]
WorldSize = Annotated[int, typer.Option("--world-size", min=1, metavar="N", help="Ranks (GPUs) that will train.")]
AllowPipe = Annotated[bool, typer.Option("--allow-pipe", help="Run pipe: urls in a shell.")]
PrintSchema = Annotated[bool, typer.Option("--print-schema", help="Print the JSON Schema of --format json and exit.")]
Keys = Annotated[int, typer.Option("--keys", min=0, metavar="N", help="List the first N samples with their offsets.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
