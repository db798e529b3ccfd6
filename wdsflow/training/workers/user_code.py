"""The error for user code that failed at a sample: its location, and how to skip the sample."""

from collections.abc import Sequence
from traceback import extract_tb

from wdsflow.training.feed_options import SampleError
from wdsflow.training.pixels.image_work import TransformError
from wdsflow.training.sample_tasks import Task
from wdsflow.training.stalls.hanging import exclusion_fix, samples_text

from .decoder_position import frames_outside_wdsflow
from .slots import shared_memory_notes

# Functions of a stack that are shown.
_FRAMES = 3


def code_failure(
    code: str, tasks: Sequence[Task], error: BaseException, processes: str
) -> SampleError:
    """Return the error.

    Args:
        code: its name: "the image transform", "the tokenizer", "map".
        tasks: one of their samples is to blame.
        error: what it raised; of a transform, the TransformError with it as its cause.
        processes: the user's name of the number of decoding processes.
    """
    of_transform = isinstance(error, TransformError)
    cause = error.__cause__ if of_transform else error
    reason = str(error) if of_transform else f"it raised {type(error).__name__}: {error}"
    lines = [f"{code} failed at {samples_text(tasks)}: {reason}"]
    stack = reversed(extract_tb(cause.__traceback__ if cause is not None else None))
    frames = frames_outside_wdsflow(
        (frame.name, frame.filename, frame.lineno or 0) for frame in stack
    )
    lines += [f"  in {frame}" for frame in frames[:_FRAMES]]
    lines += shared_memory_notes(error if cause is None else cause, processes)
    if isinstance(error, TransformError) and error.always:
        lines.append(
            "It does the same for a picture of noise: correct the code, no sample is to blame."
        )
        if reason == "it returned None":
            lines.append("A function without return returns None.")
    elif len(tasks) == 1:
        fixes = [f"  {fix}" for fix in exclusion_fix(tasks[0])]
        if fixes:
            lines += ["To fix it, correct the code, or:", *fixes]
    return SampleError("\n".join(lines))
