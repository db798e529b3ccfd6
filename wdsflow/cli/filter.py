"""``wdsflow filter``: keep the samples that match a predicate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wdsflow.cli.shared.cli_options import (
    Address,
    AllowPipe,
    Device,
    Embedded,
    Embeddings,
    EngineChoice,
    Engines,
    GpuMemory,
    Numbering,
    TarSamples,
    TarSize,
    To,
)
from wdsflow.cli.shared.refusals import explained
from wdsflow.cli.shared.run_arguments import (
    Captions,
    ChunkEnd,
    DryRun,
    Empty,
    Export,
    ImageMemory,
    Images,
    ImageToken,
    Keep,
    MediaRoot,
    Memory,
    Out,
    Quarantine,
    RecipeFile,
    Restart,
    ShardCount,
    ShardIndex,
    Unknown,
    Urls,
    VideoToken,
    Where,
    Workers,
    given,
    need_predicate,
    run_options,
)
from wdsflow.cli.shared.run_outcome import check_exports, exported, progress, show
from wdsflow.cli.shared.typed_command import MAIN, OTHER, SAMPLES, Typed, free

if TYPE_CHECKING:
    from wdsflow.filtering.recipe.recipe import Recipe

Also = Annotated[
    list[str] | None,
    typer.Option(
        "--scores", metavar="NAMES", help="More scores to write to the ledger, for every sample.", rich_help_panel=MAIN
    ),
]
HashImages = Annotated[
    bool | None,
    typer.Option(
        "--hash-images/--no-hash-images",
        help="Write the xxh3 hash of each image's bytes to the ledger.",
        rich_help_panel=SAMPLES,
    ),
]
PrintSchema = Annotated[
    bool, typer.Option("--print-schema", help="Print the JSON Schema of recipes, and exit.", rich_help_panel=OTHER)
]
PrintRecipe = Annotated[
    bool, typer.Option("--print-recipe", help="Print the recipe for these flags, and exit.", rich_help_panel=OTHER)
]
Measure = Annotated[
    bool,
    typer.Option(
        "--measure", help="With --print-recipe: measure some samples to order the terms.", rich_help_panel=OTHER
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain", help="Print the plan, with costs measured on some samples, and exit.", rich_help_panel=MAIN
    ),
]


def filter(  # noqa: A001 - the name of the command
    context: typer.Context,
    urls: Urls = None,
    out: Out = None,
    where: Where = None,
    keep: Keep = None,
    recipe: RecipeFile = None,
    scores: Also = None,
    images: Images = None,
    captions: Captions = None,
    unknown: Unknown = None,
    empty: Empty = None,
    numbering: Numbering = None,
    hash_images: HashImages = None,
    embeddings: Embeddings = None,
    ledger: Embedded = None,
    image_memory: ImageMemory = None,
    image_token: ImageToken = None,
    video_token: VideoToken = None,
    chunk_end: ChunkEnd = None,
    media_root: MediaRoot = None,
    workers: Workers = None,
    memory: Memory = None,
    engine: Engines = EngineChoice.local,
    address: Address = None,
    device: Device = "auto",
    gpu_memory: GpuMemory = None,
    to: To = None,
    tar_samples: TarSamples = None,
    tar_size: TarSize = None,
    export: Export = None,
    quarantine: Quarantine = None,
    restart: Restart = False,
    dry_run: DryRun = False,
    explain: Explain = False,
    measure: Measure = False,
    print_recipe: PrintRecipe = False,
    print_schema: PrintSchema = False,
    shard_index: ShardIndex = 0,
    shard_count: ShardCount = 1,
    allow_pipe: AllowPipe = False,
) -> None:
    """Keep the samples that match a predicate.

    The output shards hold these samples, byte for byte:

    wdsflow filter "in/{000..042}.tar" -o out --where "min_side >= 200 and aspect_ratio < 3"

    The same command resumes an interrupted run. OUT/_wdsflow/ledger holds the scores of all samples.

    Exit status: 0 if all shards are done; 1 if a shard could not be read, nothing was kept, or half or more was
    quarantined; 2 if the command is wrong, or nothing could be read or written.
    """
    typed = Typed(context)
    with explained(typed):
        from wdsflow.filtering.recipe.recipe_file import merged

        flags = {
            "where": where,
            "keep": keep,
            "scores": scores,
            "images": images,
            "captions": captions,
            "unknown": unknown,
        }
        more = {"empty": empty, "numbering": numbering, "hash_images": hash_images, "image_memory": image_memory}
        lines = {"image_token": image_token, "video_token": video_token, "chunk_end": chunk_end, "lines_to": to}
        tars = {"tar_samples": tar_samples, "tar_size": tar_size, "media_root": media_root}
        asked = merged(recipe, {**flags, **more, **lines, **tars, "embeddings": embeddings})
        if print_schema or print_recipe or explain:
            _tell(urls, asked, typed, schema=print_schema, explain=explain, measure=measure, allow_pipe=allow_pipe)
            return
        limits, slices, on = (workers, memory, quarantine), (shard_index, shard_count), (engine, address)
        how = {"restart": restart, "dry_run": dry_run, "allow_pipe": allow_pipe}
        lists, settings = (export, ledger), (limits, slices, on, (device, gpu_memory))
        where_to = given(urls, out, needs_out="" if dry_run else "kept")
        need_predicate(asked)
        _run(where_to, asked, lists, settings, how, typed)


def _run(
    where: tuple[list[str], Path],
    asked: "Recipe",
    lists: tuple[list[Path] | None, Path | None],
    settings: Any,
    how: Any,
    typed: Typed,
) -> None:
    from wdsflow.filtering.run_filter import filter_shards

    (shards, folder), (export, ledger) = where, lists
    check_exports(export, settings[1][1])
    with progress() as begin:
        report = filter_shards(shards, folder, asked, run_options(begin, *settings, **how), ledger=ledger)
    exported(report, folder, export)
    show(report, folder, typed)


def _tell(
    urls: list[str] | None,
    asked: "Recipe",
    typed: Typed,
    *,
    schema: bool,
    explain: bool,
    measure: bool,
    allow_pipe: bool,
) -> None:
    """Print the schema of recipes, the plan of a recipe, or the recipe itself."""
    if schema:
        from wdsflow.filtering.recipe.recipe_file import schema as recipe_schema

        print(recipe_schema(), end="")
        return
    if explain:
        from wdsflow.filtering.pilot_run import explain_plan

        shards, _ = given(urls, Path())
        recipe = typed.again(explain=None, measure=True, print_recipe=True)
        run = Typed.spell("filter", *shards, out=free(Path("kept")), recipe="recipe.yaml")
        advice = f"\nto run in this order: {recipe} > recipe.yaml\nthen: {run}"
        print(explain_plan(shards, asked, allow_pipe=allow_pipe, advice=advice))
        return
    from wdsflow.filtering.recipe.recipe_file import printed

    if measure:
        import json
        from dataclasses import replace

        from wdsflow.filtering.pilot_run import measure as measured

        found = measured(given(urls, Path())[0], asked, allow_pipe=allow_pipe)
        asked = replace(asked, pilot=json.dumps(found.to_json(), sort_keys=True))
    print(printed(asked), end="")
