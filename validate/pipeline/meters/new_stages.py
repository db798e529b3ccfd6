"""Describes a stage of the user's pipeline for reports, before it runs."""

from collections.abc import Mapping

from ...tracing.errors import code_line
from ...tracing.pipeline_stages import bare_name, is_loader
from ...tracing.pipeline_steps import PipelineStep
from ..user_code.iterables import Items, is_map_style
from .followed_stages import calls_function, passes_on
from .reported_stage import ReportedStage


def new_stage(number: int, step: PipelineStep, call_lines: Mapping[str, str]) -> ReportedStage:
    """Return a stage without counts.

    Args:
        number: of the stage, from 1.
        step: of the pipeline.
        call_lines: name of a function -> the only line of the user that calls it.
    """
    stage = step.stage
    batch = step.batch
    if is_loader(stage) and stage.batch_size is None:
        # Its sampler may give the numbers of whole batches.
        batch = int(getattr(stage.batch_sampler, "batch_size", None) or 0)
    return ReportedStage(
        number,
        step.title,
        batch=batch,
        line=_line_of(stage) or call_lines.get(bare_name(stage), ""),
        is_loader=is_loader(stage),
        is_opaque=not passes_on(stage),
        calls_function=calls_function(stage),
    )


def _line_of(stage: object) -> str:
    """Return the line where the user's code of a stage begins; "" if it is unknown."""
    if is_loader(stage):
        return ""
    dataset = stage.dataset if isinstance(stage, Items) else stage
    if is_map_style(dataset):
        return code_line(type(dataset).__getitem__)
    return code_line(stage)
