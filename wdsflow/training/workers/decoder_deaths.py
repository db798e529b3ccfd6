"""The message for a decoding process that has ended, or that cannot be started."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wdsflow.engines.exit_status import signal_name
from wdsflow.memory.bounds import host_memory
from wdsflow.memory.sizes import format_size
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.sample_tasks import Task
from wdsflow.training.stalls.field_fixes import (
    argument_name,
    process_count_name,
    rerun_command,
    resume_command,
)
from wdsflow.training.stalls.hanging import exclusion_fix, samples_text

from .slots import more_shared_memory_fix, shared_memory_state

_CRASHES = frozenset({"SIGSEGV", "SIGILL", "SIGFPE", "SIGABRT"})


class Death(NamedTuple):
    """How a process ended."""

    # Such as "decoder 1 (process 4242)".
    name: str
    # Its exit status, negative for a signal.
    code: int | None
    # It was at one of these.
    tasks: Sequence[Task]
    # All images of them were done.
    in_tokenizer: bool
    # In all.
    processes: int
    # They run one of OpenCLIP's transforms, and --decoders is their number.
    recognised: bool


def not_started_message(
    number: int, error: OSError, options: FeedOptions, *, recognised: bool
) -> str:
    """Return why a decoder cannot be started, and a fix. ``recognised``: as in ``Death``."""
    fewer = f"start fewer: {rerun_command(options, decoders=str(max(1, number // 2)))}"
    if not recognised:
        fewer = f"start fewer than {number + 1}: {argument_name(options, 'workers')}"
    lines = [f"decoder {number} cannot be started: {error.strerror or error}.", "To fix it:"]
    limits = "raise the limits of open files and processes: ulimit -n, ulimit -u"
    return "\n".join([*lines, *([f"  {fewer}"] if number else []), f"  {limits}"])


def death_message(death: Death, options: FeedOptions) -> str:
    """Return how a process ended, at which sample, and a fix."""
    where = (
        f"at {samples_text(death.tasks, in_tokenizer=death.in_tokenizer)}"
        if death.tasks
        else "between two samples"
    )
    how, cause = _end_and_cause(death.code)
    lines = [f"{death.name} {how}, {where}.", *([cause] if cause else []), "To fix it:"]
    return "\n".join([*lines, *(f"  {fix}" for fix in _fixes(death, options))])


def _end_and_cause(code: int | None) -> tuple[str, str]:
    """Return how a process ended, and the usual cause."""
    if code is None:
        return "closed its pipe", ""
    name = signal_name(code)
    if not name:
        return (
            f"ended by itself with exit status {code}",
            "The image transform or the tokenizer called exit.",
        )
    cause = ""
    if name == "SIGKILL":
        memory = host_memory()
        free = f"{format_size(memory.free)} of {format_size(memory.total)} are free now"
        cause = f"The kernel kills a process this way when memory runs out: {free}."
    elif name == "SIGBUS":
        cause = f"This happens where shared memory, or a disk, is full: {shared_memory_state()}."
    elif name in _CRASHES:
        cause = "A library has crashed in it."
    return f"was ended by {name}", cause


def _fixes(death: Death, options: FeedOptions) -> Iterator[str]:
    name = signal_name(death.code)
    if name == "SIGKILL":
        if death.recognised and death.processes > 1:
            yield f"with less memory: {rerun_command(options, decoders=str(death.processes // 2))}"
        elif not death.recognised:
            fewer = (
                f"fewer workers than {death.processes} ({argument_name(options, 'workers')}), or "
            )
            smaller = f"smaller batches ({argument_name(options, 'batch_size')})"
            yield f"with less memory: {fewer if death.processes > 1 else ''}{smaller}"
        yield "to see what killed it: dmesg | grep -i -e oom -e killed"
    elif name == "SIGBUS":
        yield more_shared_memory_fix(process_count_name(options, recognised=death.recognised))
    if len(death.tasks) == 1 and name not in {"SIGTERM", "SIGINT", "SIGHUP"}:
        yield from exclusion_fix(death.tasks[0])
    yield f"from the last checkpoint: {resume_command(options)}"
