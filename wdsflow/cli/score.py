"""``wdsflow score``: compute scores, and write ledgers but no tars."""

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
)
from wdsflow.cli.shared.refusals import explained
from wdsflow.cli.shared.run_arguments import (
    Captions,
    ChunkEnd,
    ImageMemory,
    Images,
    ImageToken,
    MediaRoot,
    Memory,
    Misuse,
    Out,
    RecipeFile,
    Restart,
    ShardCount,
    ShardIndex,
    Urls,
    VideoToken,
    Workers,
    given,
    run_options,
)
from wdsflow.cli.shared.run_outcome import progress, show
from wdsflow.cli.shared.typed_command import MAIN, SAMPLES, Typed

if TYPE_CHECKING:
    from wdsflow.filtering.recipe.recipe import Recipe

Scores = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        metavar="NAMES",
        help="Scores to compute, separated by commas: min_side,caption_words.",
        rich_help_panel=MAIN,
    ),
]
HashImages = Annotated[
    bool,
    typer.Option(
        "--hash-images", help="Write the xxh3 hash of each image's bytes to the ledger.", rich_help_panel=SAMPLES
    ),
]


def score(
    context: typer.Context,
    urls: Urls = None,
    out: Out = None,
    recipe: RecipeFile = None,
    scores: Scores = None,
    images: Images = None,
    captions: Captions = None,
    hash_images: HashImages = False,
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
    restart: Restart = False,
    shard_index: ShardIndex = 0,
    shard_count: ShardCount = 1,
    allow_pipe: AllowPipe = False,
) -> None:
    """Compute scores of all samples.

    Writes them to OUT/_wdsflow/ledger, one Parquet file per shard:

    wdsflow score "in/{000..042}.tar" -o scores --scores min_side,caption_words,blur

    Then choose thresholds, and filter with wdsflow cut as often as you like. The same command with other scores adds
    them to the ledgers; what is there is not computed again. The predicate of a recipe is ignored.

    Exit status: 0 if all shards are done; 1 if a shard could not be read, or a score has no value for half or more of
    the samples; 2 if the command is wrong, or nothing could be read or written.
    """
    typed = Typed(context)
    with explained(typed):
        from wdsflow.filtering.run_filter import score_shards

        shards, folder = given(urls, out, needs_out="scored")
        flags = {"scores": scores, "images": images, "captions": captions, "image_memory": image_memory}
        more = {"hash_images": hash_images or None, "embeddings": embeddings, "media_root": media_root}
        lines = {"image_token": image_token, "video_token": video_token, "chunk_end": chunk_end}
        asked = _asked(recipe or (None if restart else _earlier(folder)), {**flags, **more, **lines})
        with progress() as begin:
            limits = workers, memory, None
            slices, on = (shard_index, shard_count), (engine, address)
            options = run_options(
                begin, limits, slices, on, (device, gpu_memory), restart=restart, dry_run=False, allow_pipe=allow_pipe
            )
            report = score_shards(shards, folder, asked, options, ledger=ledger)
    show(report, folder, typed)


def _earlier(folder: Path) -> Path | None:
    """Return the recipe of the ledgers in a folder, whose settings hold for scores that are added."""
    from wdsflow.filtering.recipe.recipe import recorded_run
    from wdsflow.filtering.run_folder import Layout

    run_file = Layout(folder).run_file
    return run_file if recorded_run(run_file).get("kind") == "score" else None


def _asked(recipe: Path | None, flags: dict[str, Any]) -> "Recipe":
    """Return the recipe. Raises ValueError."""
    from dataclasses import replace

    from wdsflow.filtering.recipe.recipe_file import merged

    asked = replace(merged(recipe, flags), where="", keep=(), pilot="")
    if not asked.scores and not asked.hash_images:
        raise Misuse(
            "no scores given: name them with --scores", "all scores: wdsflow scores", scores=["caption_words,min_side"]
        )
    return asked
