"""wdsflow's feed as a reader of a training command.

Includes its forecast, and why its run would not start.
"""

from collections.abc import Sequence
from dataclasses import replace

from wdsflow.readers.base import Options, split_names
from wdsflow.readers.installed_versions import release_numbers
from wdsflow.readers.open_clip.arguments import Arguments, installed_openclip
from wdsflow.readers.open_clip.sidecars import Sidecars
from wdsflow.readers.open_clip.startup import has_size
from wdsflow.readers.open_clip.versions import FeedReader, OpenClip4, OpenClip33
from wdsflow.scan.evidence import Evidence
from wdsflow.stages.caption_sources import Captions
from wdsflow.stages.caption_text import JsonText

from .finding import Finding
from .forecast.forecast import forecast
from .forecast.forecast_result import Forecast
from .rules.kit.base import Context
from .verdicts.verdict import Verdict

# Rules about data with which a run would hang.
STARVING = frozenset({"F101", "P301", "P302", "P303"})
_JSON = "json"


def feed_reader(arguments: Arguments | None, captions: Captions | None = None) -> FeedReader:
    """Return the feed as ``wdsflow train`` makes it for a training command.

    Without a command, returns the feed as ``wdsflow.feed`` makes it.

    ``captions``: its own option, which takes precedence.
    """
    version = installed_openclip()
    is_new = version is not None and release_numbers(version) >= (4,)
    options = Options()
    if arguments is not None:
        options = arguments.options(OpenClip4 if is_new else OpenClip33)
    names = _JSON if options.json_text_key else options.text_key
    # OpenCLIP 3.3 trains on empty captions.
    keeps_empty = arguments is not None and not is_new and captions is None
    if captions is not None:
        json_names: list[str] = []
        for source in captions.sources:
            if isinstance(source, JsonText):
                json_names += source.json_text_key
        options = replace(options, json_text_key=";".join(json_names))
        # A scan names all fields in lower case.
        names = ";".join(captions.in_lower_case().members)
    # Only the flag of OpenCLIP 4 lowers Pillow's own limit.
    pixels = options.max_image_pixels if arguments is not None and is_new else 0
    options = replace(options, text_key=names, max_image_pixels=pixels)
    images = tuple(name.lower() for name in split_names(options.image_key))
    fields = tuple(name.lower() for name in split_names(names))
    return FeedReader(options, images, fields, keeps_empty=keeps_empty)


def feed_forecast(
    evidence: Evidence,
    reader: FeedReader,
    verdict: Verdict,
    arguments: Arguments,
    sidecars: Sidecars | None,
    validation: Evidence | None = None,
) -> tuple[Arguments, Forecast]:
    """Return a training command as the feed understands it, and its forecast.

    Unlike OpenCLIP, the feed expands globs, and counts samples if no file next to the shards has
    the count.

    Args:
        evidence: of all training shards.
        reader: the feed.
        verdict: its verdict on them.
        arguments: the training command.
        sidecars: files next to the shards.
        validation: evidence of the shards of ``--val-data``, None if they are judged separately.
    """
    urls = [shard.url for shard in evidence.shards]
    # Without weights they are the scanned shards, whose names are no patterns.
    named = arguments.train_data if arguments.train_data_upsampling_factors else None
    given = arguments.train_num_samples
    counted = given is None and not has_size(urls, sidecars or Sidecars())
    # If none is usable, the samples after a repair.
    if counted:
        after_stop = sum(shard.samples_after_stop for shard in evidence.shards)
        given = max(1, (verdict.usable or verdict.samples) + after_stop)
    trained = replace(
        arguments, train_data=named, train_num_samples=given, dataset_type="webdataset"
    )
    if validation is None:
        # With the name of a pattern, it would be taken for one that does not exist.
        outlook = forecast(evidence, reader, replace(trained, val_data=None), sidecars)
    else:
        outlook = forecast(evidence, reader, trained, sidecars, validation=validation)
    if counted:
        outlook = replace(outlook, length_source="counted by name")
    if reads_past_damage(evidence):
        note = "the feed also reads what follows damage in a shard, which is not counted here"
        notes = (*outlook.notes, note)
        outlook = replace(outlook, stalled=(), epochs_checked=0, exact=False, notes=notes)
    return trained, outlook


def fatal_findings(context: Context, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings for which a run on the feed does not start.

    ``findings``: must include those of the rules in ``STARVING``.
    """
    evidence, verdict = context.evidence, context.verdicts[0]
    fatal = [finding for finding in findings if finding.code in STARVING]
    # The feed reads past damage, and may find enough samples there.
    if reads_past_damage(evidence):
        return [finding for finding in fatal if finding.code == "P303"]
    if not verdict.usable and not fatal:
        reasons = [reason.message for reason in verdict.reasons] or ["the shards hold no samples"]
        fatal = [Finding("P301", "error", f"no sample reaches a batch: {reasons[0]}")]
    return fatal


def reads_past_damage(evidence: Evidence) -> bool:
    """Return whether samples follow damage in a shard."""
    return any(shard.samples_after_stop for shard in evidence.shards)
